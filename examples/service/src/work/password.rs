//! Checking a password against an argon2id hash.

use std::collections::HashMap;

use argon2::password_hash::{Error, PasswordHash, PasswordHasher, PasswordVerifier, Salt};
use argon2::{Algorithm, Argon2, Params, Version};

/// Small on purpose, so that a check takes some milliseconds and a laptop shows an overload. In
/// earnest take what the OWASP advises, for example 19 MiB and 2 passes.
const MEMORY_KIB: u32 = 4096;
const PASSES: u32 = 3;

/// Whom the service knows: made at the start, as a database would hold them.
const USERS: [(&str, &str); 3] =
    [("ada", "correct horse"), ("grace", "battery staple"), ("edsger", "goto considered")];

pub(crate) struct Passwords {
    hashes: HashMap<&'static str, String>,
    /// Checked where the user isn't known, so that the time taken doesn't tell.
    of_nobody: String,
}

impl Passwords {
    pub(crate) fn new() -> Result<Self, Error> {
        let hashes = USERS.map(|(user, password)| Ok((user, hash(password)?)));
        Ok(Self {
            hashes: hashes.into_iter().collect::<Result<_, Error>>()?,
            of_nobody: hash("nobody has this one")?,
        })
    }

    /// Whether this is the user's password: one argon2id.
    pub(crate) fn check(&self, user: &str, password: &str) -> bool {
        let known = self.hashes.get(user);
        let hash = known.unwrap_or(&self.of_nobody);
        let is_right = PasswordHash::new(hash)
            .and_then(|hash| hasher()?.verify_password(password.as_bytes(), &hash))
            .is_ok();
        is_right && known.is_some()
    }
}

fn hasher() -> Result<Argon2<'static>, Error> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash(password: &str) -> Result<String, Error> {
    let salt: [u8; 16] = std::array::from_fn(|_| fastrand::u8(..));
    let mut text = [0; Salt::MAX_LENGTH];
    let salt = Salt::from_b64(base64(&salt, &mut text)?)?;
    Ok(hasher()?.hash_password(password.as_bytes(), salt)?.to_string())
}

fn base64<'a>(bytes: &[u8], text: &'a mut [u8]) -> Result<&'a str, Error> {
    use argon2::password_hash::Encoding;
    Ok(Encoding::B64.encode(bytes, text)?)
}
