//! `/v1/campaigns/{campaign}/results`: what came of a campaign, in numbers.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Serialize;
use tidings_outreach::campaigns::results::{
    self, Base, Named, Numbers, Outcomes, Rates, Results, Span, Split,
};
use utoipa::ToSchema;

use super::which;
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::{Needs, Read, Refusals};
use crate::v1::stats::CountsBody;

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignResults)]
pub(in crate::v1) struct ResultsBody {
    #[schema(minimum = 1)]
    campaign_id: i64,
    key: String,
    #[schema(value_type = String)]
    status: &'static str,
    /// Everybody it means, those who are skipped too
    #[schema(minimum = 0)]
    recipients: i64,
    outcomes: OutcomesBody,
    /// Why people were left out, the most frequent reason first
    skipped: Vec<NamedBody>,
    /// Why it failed
    failed: Vec<NamedBody>,
    /// All that came back
    totals: CountsBody,
    rates: RatesBody,
    opens: SplitBody,
    clicks: SplitBody,
    bounces: Vec<BouncesBody>,
    domains: DomainsBody,
    links: LinksBody,
    /// Over time: 48 hours one by one, and then days
    series: Vec<SlotBody>,
    variants: Vec<VariantBody>,
    /// The place of the variant that did best, once that is decided
    #[schema(minimum = 0)]
    winner: Option<i64>,
}

/// How it ended with the recipients so far.
#[derive(Serialize, ToSchema)]
#[schema(as = CampaignOutcomes)]
pub(in crate::v1) struct OutcomesBody {
    /// They have no end yet, or are in a batch that has none
    #[schema(minimum = 0)]
    pending: i64,
    #[schema(minimum = 0)]
    sent: i64,
    #[schema(minimum = 0)]
    failed: i64,
    #[schema(minimum = 0)]
    skipped: i64,
    #[schema(minimum = 0)]
    uncertain: i64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignReason)]
pub(in crate::v1) struct NamedBody {
    #[schema(example = "global_unsubscribe")]
    name: String,
    #[schema(minimum = 0)]
    count: i64,
}

/// Parts of one, each of messages. Null where there is nothing to be a part of.
#[derive(Serialize, ToSchema)]
#[schema(as = CampaignRates)]
pub(in crate::v1) struct RatesBody {
    /// What the rates are of: `delivered` if the provider tells of deliveries, else `sent`. Deliveries and bounces are parts of what was sent
    #[schema(value_type = String, pattern = "^(delivered|sent)$")]
    base: &'static str,
    #[schema(minimum = 0)]
    base_count: i64,
    delivered: Option<f64>,
    bounced: Option<f64>,
    opened: Option<f64>,
    human_opened: Option<f64>,
    clicked: Option<f64>,
    human_clicked: Option<f64>,
    /// Of those that a person opened, how many a person clicked
    human_clicked_of_opened: Option<f64>,
    complained: Option<f64>,
    unsubscribed: Option<f64>,
    replied: Option<f64>,
}

/// Who did it.
#[derive(Serialize, ToSchema)]
#[schema(as = CampaignSplit)]
pub(in crate::v1) struct SplitBody {
    /// People, as far as can be told
    #[schema(minimum = 0)]
    human: i64,
    /// Machines, and whom nobody can tell
    #[schema(minimum = 0)]
    other: i64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignBounces)]
pub(in crate::v1) struct BouncesBody {
    #[schema(pattern = "^(hard|soft|content|unknown)$")]
    class: String,
    /// As the provider calls it
    subtype: String,
    #[schema(minimum = 0)]
    count: i64,
}

/// What was sent, and what came back.
#[derive(Serialize, ToSchema)]
#[schema(as = CampaignNumbers)]
pub(in crate::v1) struct NumbersBody {
    #[schema(minimum = 0)]
    sent: i64,
    events: CountsBody,
}

/// By the domain of the recipient.
#[derive(Serialize, ToSchema)]
#[schema(as = CampaignDomains)]
pub(in crate::v1) struct DomainsBody {
    /// The 50 that most was sent to
    top: Vec<DomainBody>,
    /// How many there are besides
    #[schema(minimum = 0)]
    other_count: i64,
    others: NumbersBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignDomain)]
pub(in crate::v1) struct DomainBody {
    #[schema(example = "example.org")]
    domain: String,
    numbers: NumbersBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignLinks)]
pub(in crate::v1) struct LinksBody {
    /// The 50 that were clicked most
    top: Vec<LinkBody>,
    others: CountsBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignLink)]
pub(in crate::v1) struct LinkBody {
    url: String,
    clicks: CountsBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignSlot)]
pub(in crate::v1) struct SlotBody {
    #[schema(value_type = String, format = DateTime)]
    from: Timestamp,
    #[schema(value_type = String, pattern = "^(hour|day)$")]
    span: &'static str,
    numbers: NumbersBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignVariantResults)]
pub(in crate::v1) struct VariantBody {
    #[schema(minimum = 0)]
    place: i64,
    name: String,
    winner: bool,
    numbers: NumbersBody,
}

/// Show what came of a campaign
///
/// How it ended with its recipients, what came back, by domain, link, hour and variant, and how much of it people did. Needs
/// the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/campaigns/{campaign}/results",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    responses(
        (status = 200, description = "The numbers", body = ResultsBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(campaign): Path<String>,
) -> Result<Json<ResultsBody>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    Ok(Json(results::results(&cx, find).await?.into()))
}

impl From<Results> for ResultsBody {
    fn from(all: Results) -> Self {
        let named = |list: Vec<Named>| -> Vec<NamedBody> {
            list.into_iter().map(|Named { name, count }| NamedBody { name, count }).collect()
        };
        let bounces = all.bounces.into_iter().map(|one| BouncesBody {
            class: one.class,
            subtype: one.subtype,
            count: one.count,
        });
        let domains = all
            .domains
            .top
            .into_iter()
            .map(|one| DomainBody { domain: one.domain, numbers: one.numbers.into() });
        let links = all.links.top.into_iter();
        let links = links.map(|one| LinkBody { url: one.url, clicks: one.clicks.into() });
        let series = all.series.into_iter().map(|one| SlotBody {
            from: one.from,
            span: match one.span {
                Span::Hour => "hour",
                Span::Day => "day",
            },
            numbers: one.numbers.into(),
        });
        let variants = all.variants.into_iter().map(|one| VariantBody {
            place: one.place,
            name: one.name,
            winner: one.winner,
            numbers: one.numbers.into(),
        });
        Self {
            campaign_id: all.campaign_id,
            key: all.key,
            status: all.status,
            recipients: all.recipients,
            outcomes: all.outcomes.into(),
            skipped: named(all.skipped),
            failed: named(all.failed),
            totals: all.totals.into(),
            rates: all.rates.into(),
            opens: all.opens.into(),
            clicks: all.clicks.into(),
            bounces: bounces.collect(),
            domains: DomainsBody {
                top: domains.collect(),
                other_count: all.domains.other_count,
                others: all.domains.others.into(),
            },
            links: LinksBody { top: links.collect(), others: all.links.others.into() },
            series: series.collect(),
            variants: variants.collect(),
            winner: all.winner,
        }
    }
}

impl From<Outcomes> for OutcomesBody {
    fn from(all: Outcomes) -> Self {
        let Outcomes { pending, sent, failed, skipped, uncertain } = all;
        Self { pending, sent, failed, skipped, uncertain }
    }
}

impl From<Rates> for RatesBody {
    fn from(all: Rates) -> Self {
        Self {
            base: match all.base {
                Base::Delivered => "delivered",
                Base::Sent => "sent",
            },
            base_count: all.base_count,
            delivered: all.delivered,
            bounced: all.bounced,
            opened: all.opened,
            human_opened: all.human_opened,
            clicked: all.clicked,
            human_clicked: all.human_clicked,
            human_clicked_of_opened: all.human_clicked_of_opened,
            complained: all.complained,
            unsubscribed: all.unsubscribed,
            replied: all.replied,
        }
    }
}

impl From<Split> for SplitBody {
    fn from(split: Split) -> Self {
        Self { human: split.human, other: split.other }
    }
}

impl From<Numbers> for NumbersBody {
    fn from(numbers: Numbers) -> Self {
        Self { sent: numbers.sent, events: numbers.events.into() }
    }
}
