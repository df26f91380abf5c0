//! Logins. Passwords change while a program runs, so a file is read, or a callback called, at each connect.

use tenure_core::backend::{LoginCallback, Secret};

/// A user and a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// The user; the server's default user if `None`.
    pub user: Option<String>,
    /// The password.
    pub password: Secret,
}

impl Login {
    /// Creates a login of the server's default user.
    pub fn new(password: impl Into<Secret>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Creates a login of this user.
    pub fn user(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }
}

/// The source of logins.
#[derive(Clone, Debug, Default)]
pub(crate) enum Logins {
    #[default]
    None,
    Fixed(Login),
    Callback(LoginCallback<Login>),
}

/// Why there is no login.
pub(crate) enum LoginError {
    /// The password file cannot be read or is empty.
    Permanent(String),
    /// The callback failed; it may succeed later.
    Temporary(String),
}

impl Logins {
    pub(crate) fn fixed(user: &Option<String>, password: &Option<Secret>) -> Self {
        match password {
            None => Self::None,
            Some(password) => Self::Fixed(Login { user: user.clone(), password: password.clone() }),
        }
    }

    /// The user and password for a connect now.
    pub(crate) async fn current(&self) -> Result<Option<(Option<String>, String)>, LoginError> {
        let login = match self {
            Self::None => return Ok(None),
            Self::Fixed(login) => login.clone(),
            Self::Callback(callback) => {
                callback.call().await.map_err(|e| LoginError::Temporary(e.to_string()))?
            }
        };
        let password = login.password.read().await.map_err(|e| LoginError::Permanent(e.to_string()))?;
        Ok(Some((login.user, password)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = format!("{:?}", Login::user("me", "hunter2"));
        assert!(!shown.contains("hunter2") && shown.contains("me"), "{shown}");
    }
}
