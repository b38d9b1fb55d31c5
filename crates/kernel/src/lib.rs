//! The words and ports everything else is built on.
//!
//! Here: a workspace, an e-mail address, the clock, queues and timers, who takes mail, and DynamoDB's model of items as typed values: what an item is, what a
//! write assumes and does, what a query asks, and the traits that an engine implements. The rules of
//! that model (conditions, updates, limits) are pure functions here, so that every SQL engine shares them.
//! Not here: any engine (`sql`, `aws`), any feature, any IO.

mod address;
mod causes;
mod clock;
mod hex;
mod item;
mod queue;
mod rules;
mod sender;
mod store;
mod table;
mod timer;
mod workspace;

pub use address::{AddressError, EmailAddress};
pub use causes::causes;
pub use clock::{Clock, SystemClock};
pub use hex::hex;
pub use item::{Item, Number, NumberError, Path, Segment, Value, plain};
pub use queue::{
    BadMessage, DeadLetter, Delivery, Depth, Destination, Outbox, Outgoing, Postponement, Queue,
    QueueEngine, QueueError, Receipt, Receive, Topic, Which, check_count, check_lease, message_id,
    queues, topics,
};
pub use queue::{MAX_BODY_BYTES, MAX_DELAY, MAX_LEASE, MAX_MESSAGES};
pub use rules::{
    Action, Cancellation, Change, ChangeBatch, ChangeKind, Check, Condition, Cursor, Delete,
    Direction, Expect, Invalid, Page, Put, Query, Returns, Scan, SortRange, Txn, Update, Write,
    check_consumer,
};
pub use rules::{MAX_BATCH_GET, MAX_ITEM_BYTES, MAX_PAGE_BYTES, MAX_TXN_BYTES, MAX_TXN_WRITES};
pub use sender::{Accepted, Lane, Mail, ProviderSuppressions, SendError, Sender, SuppressedFor};
pub use store::{ItemEngine, ItemStore, StoreError};
pub use table::{Index, Key, Table, tables};
pub use timer::{Fired, MAX_TIMER_KEY, ScheduleEngine, Timer, TimerChange, TimerEngine};
pub use workspace::{Workspace, WorkspaceError};
