//! The way from threads that wait, for a disk or another server, to the control thread, which is woken by what they say.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

pub(crate) struct Teller<N> {
    news: Sender<N>,
    control: Arc<OnceLock<Thread>>,
}

impl<N> Clone for Teller<N> {
    fn clone(&self) -> Teller<N> {
        Teller { news: self.news.clone(), control: Arc::clone(&self.control) }
    }
}

/// Both ends of such a way.
pub(crate) fn channel<N>() -> (Teller<N>, Receiver<N>) {
    let (news, heard) = mpsc::channel();
    (Teller { news, control: Arc::default() }, heard)
}

impl<N> Teller<N> {
    /// Who is woken by news.
    pub(crate) fn is_heard_by(&self, control: Thread) {
        let _ = self.control.set(control);
    }

    pub(crate) fn tell(&self, news: N) {
        // Whoever ends the process hears nothing more.
        let _ = self.news.send(news);
        if let Some(control) = self.control.get() {
            control.unpark();
        }
    }
}
