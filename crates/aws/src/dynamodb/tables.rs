//! The tables of a workspace: made where they are missing, checked where they are not.
//!
//! Several nodes may open a workspace at the same time. Every step asks first and takes "somebody is at it" for
//! an answer, so that they all end at the same tables.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType,
    PointInTimeRecoverySpecification, PointInTimeRecoveryStatus, Projection, ProjectionType,
    ScalarAttributeType, StreamSpecification, StreamViewType, TableDescription, TableStatus,
    TimeToLiveSpecification, TimeToLiveStatus,
};
use tidings_kernel::{StoreError, Table, Workspace, tables};
use tracing::{debug, info};

use super::retry::{PATIENCE, pause, wait};
use super::store::table_name;
use crate::trouble::{Kind, Trouble};

/// DynamoDB needs some ten seconds for a table, and now and then a few minutes.
const PATIENCE_FOR_A_TABLE: u32 = 300;

/// All tables of a workspace, ready. Answers with the address of each one's stream, by the table's name.
pub(super) async fn ensure(
    client: &Client,
    prefix: &str,
    workspace: &Workspace,
) -> Result<HashMap<&'static str, String>, StoreError> {
    let name = |table| table_name(prefix, workspace, table);
    // First all are asked for, then all are waited for: DynamoDB makes them side by side.
    for table in tables::ALL {
        if describe(client, &name(table)).await?.is_none() {
            create(client, table, &name(table)).await?;
        }
    }
    let mut streams = HashMap::new();
    for table in tables::ALL {
        let name = name(table);
        let description = ready(client, &name).await?;
        check(table, &name, &description)?;
        if let Some(attribute) = table.ttl {
            enable_ttl(client, &name, attribute).await?;
        }
        enable_recovery(client, &name).await?;
        if let Some(arn) = description.latest_stream_arn.filter(|_| table.stream) {
            streams.insert(table.name, arn);
        }
    }
    Ok(streams)
}

/// The same for a workspace that must have its tables already. Nothing is made or changed.
pub(super) async fn find(
    client: &Client,
    prefix: &str,
    workspace: &Workspace,
) -> Result<HashMap<&'static str, String>, StoreError> {
    let mut streams = HashMap::new();
    for table in tables::ALL {
        let name = table_name(prefix, workspace, table);
        let Some(description) = describe(client, &name).await? else {
            return Err(StoreError::Failed(format!("there is no table {name}").into()));
        };
        check(table, &name, &description)?;
        if let Some(arn) = description.latest_stream_arn.filter(|_| table.stream) {
            streams.insert(table.name, arn);
        }
    }
    Ok(streams)
}

async fn describe(client: &Client, name: &str) -> Result<Option<TableDescription>, StoreError> {
    match client.describe_table().table_name(name).send().await {
        Ok(answer) => Ok(answer.table),
        Err(error) => {
            let trouble = Trouble::new(error);
            match trouble.code() {
                Some("ResourceNotFoundException") => Ok(None),
                _ => Err(trouble.of_read()),
            }
        }
    }
}

async fn create(client: &Client, table: &Table, name: &str) -> Result<(), StoreError> {
    let keys = key_schema(table.partition, table.sort);
    let stream = table.stream.then(|| {
        let stream = StreamSpecification::builder().stream_enabled(true);
        let stream = stream.stream_view_type(StreamViewType::NewAndOldImages);
        stream.build().expect("it says whether it is enabled")
    });
    let indexes = table.indexes.iter().map(|index| {
        let everything = Projection::builder().projection_type(ProjectionType::All).build();
        GlobalSecondaryIndex::builder()
            .index_name(index.name)
            .set_key_schema(Some(key_schema(index.partition, Some(index.sort))))
            .projection(everything)
            .build()
            .expect("it has a name, a key and a projection")
    });
    let indexes: Vec<_> = indexes.collect();
    let request = client
        .create_table()
        .table_name(name)
        .set_key_schema(Some(keys))
        .set_attribute_definitions(Some(key_attributes(table)))
        .set_global_secondary_indexes(Some(indexes).filter(|indexes| !indexes.is_empty()))
        .set_stream_specification(stream)
        .billing_mode(BillingMode::PayPerRequest);
    let mut tries = 0;
    loop {
        let trouble = match request.clone().send().await {
            Ok(_) => {
                info!(table = name, "Table {name} made");
                return Ok(());
            }
            Err(error) => Trouble::new(error),
        };
        tries += 1;
        match trouble.service_error() {
            // Another node was faster.
            Some(CreateTableError::ResourceInUseException(_)) => return Ok(()),
            // Only so many tables are made at the same time.
            _ if trouble.kind == Kind::Throttled && tries < PATIENCE => pause(tries).await,
            _ => return Err(trouble.of_read()),
        }
    }
}

fn key_schema(partition: &str, sort: Option<&str>) -> Vec<KeySchemaElement> {
    let element = |name: &str, role: KeyType| {
        let element = KeySchemaElement::builder().attribute_name(name).key_type(role);
        element.build().expect("it has a name and a role")
    };
    let partition = element(partition, KeyType::Hash);
    [Some(partition), sort.map(|name| element(name, KeyType::Range))]
        .into_iter()
        .flatten()
        .collect()
}

/// The type of each attribute that is part of a key, named once.
fn key_attributes(table: &Table) -> Vec<AttributeDefinition> {
    let own = [Some(table.partition), table.sort].into_iter().flatten();
    let indexed = table.indexes.iter().flat_map(|index| [index.partition, index.sort]);
    let names: HashSet<&str> = own.chain(indexed).collect();
    let definition = |name| {
        let definition = AttributeDefinition::builder().attribute_name(name);
        let definition = definition.attribute_type(ScalarAttributeType::S).build();
        definition.expect("it has a name and a type")
    };
    names.into_iter().map(definition).collect()
}

/// Waits until the table can be used. It is active once the indexes that it was made with are.
async fn ready(client: &Client, name: &str) -> Result<TableDescription, StoreError> {
    for tries in 0..PATIENCE_FOR_A_TABLE {
        if let Some(description) = describe(client, name).await?
            && description.table_status == Some(TableStatus::Active)
        {
            return Ok(description);
        }
        wait(Duration::from_millis(u64::from(tries) * 50).min(Duration::from_secs(1))).await;
    }
    Err(StoreError::Unavailable(format!("table {name} does not become active").into()))
}

/// Whether a table that was there already is the one we would have made.
fn check(table: &Table, name: &str, found: &TableDescription) -> Result<(), StoreError> {
    let keys = found.key_schema() == key_schema(table.partition, table.sort);
    let indexes = table.indexes.iter().all(|index| {
        found.global_secondary_indexes().iter().any(|found| {
            found.index_name() == Some(index.name)
                && found.key_schema() == key_schema(index.partition, Some(index.sort))
        })
    });
    // A stream that was switched off, or that keeps only keys, would lose changes without a word.
    let stream = !table.stream
        || found.stream_specification().is_some_and(|stream| {
            stream.stream_enabled()
                && stream.stream_view_type() == Some(&StreamViewType::NewAndOldImages)
        });
    let wrong = [(keys, "keys"), (indexes, "indexes"), (stream, "stream")];
    match wrong.iter().find(|(right, _)| !right) {
        None => Ok(()),
        Some((_, what)) => Err(StoreError::Corrupt(
            format!("table {name} exists, and does not have the {what} of ours").into(),
        )),
    }
}

async fn enable_ttl(client: &Client, name: &str, attribute: &str) -> Result<(), StoreError> {
    if has_ttl(client, name).await? {
        return Ok(());
    }
    let ttl = TimeToLiveSpecification::builder().enabled(true).attribute_name(attribute);
    let ttl = ttl.build().expect("it has an attribute and says whether it is enabled");
    let request = client.update_time_to_live().table_name(name).time_to_live_specification(ttl);
    match request.send().await {
        Ok(_) => Ok(()),
        // Refused, perhaps because another node was faster.
        Err(_) if has_ttl(client, name).await? => Ok(()),
        Err(error) => Err(Trouble::new(error).of_read()),
    }
}

async fn has_ttl(client: &Client, name: &str) -> Result<bool, StoreError> {
    let answer = client.describe_time_to_live().table_name(name).send().await;
    let answer = answer.map_err(|error| Trouble::new(error).of_read())?;
    let status = answer.time_to_live_description.and_then(|ttl| ttl.time_to_live_status);
    Ok(matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)))
}

/// Point-in-time recovery, where the server knows it: test servers may not.
async fn enable_recovery(client: &Client, name: &str) -> Result<(), StoreError> {
    let answer = match client.describe_continuous_backups().table_name(name).send().await {
        Ok(answer) => answer,
        Err(error) => {
            let trouble = Trouble::new(error);
            return match trouble.code() {
                Some("UnknownOperationException" | "UnknownOperation" | "NotImplemented") => {
                    debug!(table = name, "The server knows no point-in-time recovery");
                    Ok(())
                }
                _ => Err(trouble.of_read()),
            };
        }
    };
    let backups = answer.continuous_backups_description;
    let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description);
    let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status);
    if status == Some(PointInTimeRecoveryStatus::Enabled) {
        return Ok(());
    }
    let on = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true);
    let on = on.build().expect("it says whether it is enabled");
    let request = client.update_continuous_backups().table_name(name);
    let request = request.point_in_time_recovery_specification(on);
    let mut tries = 0;
    loop {
        let trouble = match request.clone().send().await {
            Ok(_) => return Ok(()),
            Err(error) => Trouble::new(error),
        };
        tries += 1;
        // A table that was just made cannot have it yet.
        let early = trouble.code() == Some("ContinuousBackupsUnavailableException");
        if !early || tries == PATIENCE_FOR_A_TABLE {
            return Err(trouble.of_read());
        }
        wait(Duration::from_secs(1)).await;
    }
}
