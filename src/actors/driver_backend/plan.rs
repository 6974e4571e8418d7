//! What the parts decide, for the actor to carry out.

use super::messages::Stop;
use crate::actors::event_history::event::What;
use crate::model::news::News;

#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Events that no snapshot shows. They are recorded before the store has the news, so that they come before what
    /// follows from these.
    pub events: Vec<What>,
    /// In this order.
    pub news: Vec<News>,
    pub stop: Option<Stop>,
}

impl From<News> for Plan {
    fn from(news: News) -> Self {
        Self {
            news: vec![news],
            ..Self::default()
        }
    }
}
