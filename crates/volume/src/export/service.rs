//! What a service manager is told: systemd, if the unit says `Type=notify`; nobody otherwise.

use sd_notify::NotifyState;

/// Clients may come.
pub fn ready() {
    tell(NotifyState::Ready);
}

/// No more; writing back takes as long as it takes.
pub fn stopping() {
    tell(NotifyState::Stopping);
}

fn tell(state: NotifyState) {
    // A manager that does not listen is not worth ending for.
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
