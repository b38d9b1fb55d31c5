//! `tidings demo`: a server with something in it, on nothing but a folder.
//!
//! Here: what is made and in which order, by the same operations that the API and the other commands call. Not here: the
//! folder (`folder`), who is in it (`contacts`), the campaign (`campaign`) and what comes back of it (`reactions`), the sequences
//! (`examples`, `sequences`), the inbox (`inbox`), reminders that wait (`reminders`), what is printed (`story`), and the server (`serve`).

mod campaign;
mod contacts;
mod examples;
mod folder;
mod inbox;
mod reactions;
mod reminders;
mod sequences;
mod story;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tidings_access::{
    Access, Actor, Bootstrap, BootstrapError, ClientId, Cx, DisplayName, Limit, Scopes, Slug,
    bootstrap, clients, keys, workspaces,
};
use tidings_delivery::capture::{self, CapturedId};
use tidings_delivery::senders::{self, Add, AddError, NewSender};
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{Messages, Send};
use tidings_http_api::Demo;
use tidings_kernel::{Workspace, queues};
use tidings_people::import;
use tokio::net::TcpListener;

use crate::apply;
use crate::config::{Config, Flag};
use crate::failure::Failure;
use crate::output::{Layout, Output, say};
use crate::runtime::Runtime;
use crate::serve::{self, Opened};
use folder::Folder;
use story::Story;

/// The name of the workspace, and of the client in it.
const NAME: &str = "demo";
const LISTEN: &str = "127.0.0.1:8080";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings demo
  tidings demo --keep
  tidings demo --folder /tmp/demo --listen 127.0.0.1:9000

It makes a workspace with a client, a key, a sender, templates, topics, an audience, three
sequences and a thousand made-up contacts, sends one of them a mail and some of them a campaign,
pretends that mails were opened, clicked and answered, lets some into the sequences, fills an
inbox, drafts payment reminders, and serves. Mail is captured: nobody gets any. Ctrl-C stops it.
The folder is begun anew each time, unless --keep is given; one that the demo has not made is
refused.")]
pub(crate) struct DemoArgs {
    /// Where everything is kept
    #[arg(long, value_name = "FOLDER", default_value = "tidings-demo")]
    folder: PathBuf,
    /// Go on with what is in the folder
    #[arg(long)]
    keep: bool,
    /// The address and port to answer HTTP on [default: 127.0.0.1:8080, or any free port if that one is taken]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Make everything, and do not serve
    #[arg(long)]
    no_serve: bool,
}

impl DemoArgs {
    /// What the demo is made of, whatever the configuration says.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let path = self.folder.join(folder::DATABASE);
        let listen = self.listen.as_deref().unwrap_or(LISTEN);
        let fixed = [
            ("demo", "store.engine", "embedded"),
            ("demo", "serve.roles", "http,worker,scheduler"),
            ("demo", "mail.provider", "capture"),
            // Nobody has to be spared, and somebody waits.
            ("demo", "mail.rate_per_second", "1000"),
            ("--listen", "http.listen", listen),
        ];
        let mut flags: Vec<Flag> = fixed
            .into_iter()
            .map(|(flag, key, value)| Flag { flag, key: key.to_owned(), value: value.to_owned() })
            .collect();
        let (key, value) = ("embedded.path".to_owned(), path.to_string_lossy().into_owned());
        flags.push(Flag { flag: "--folder", key, value });
        flags
    }
}

pub(crate) async fn run(args: &DemoArgs, config: &Config) -> Result<(), Failure> {
    let listener = bind(args, config.http.listen).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let mut config = config.clone();
    config.http.public_url = format!("http://{address}");
    let folder = Folder::take(&args.folder, args.keep)?;
    folder.write(&config)?;

    let mut opened = Opened::open(listener, &config).await?;
    let story = fill(&folder, &opened.runtime, &config).await?;
    print(&story.made())?;
    if args.no_serve {
        opened.store.close().await;
        return Ok(());
    }
    print(&story.next())?;
    opened.demo = Some(page(&opened.runtime, &config).await?);
    let served = serve::answer(opened, &config, |address| {
        say(&format!("http://{address}/inbox/demo is a page with an inbox in it"));
        say(&format!("Tidings is listening on http://{address}; Ctrl-C stops it"));
    });
    served.await?;
    let folder = args.folder.display();
    say(&format!("Stopped. `tidings demo --keep --folder {folder}` goes on with what is there"));
    Ok(())
}

/// Whose inbox the page shows.
async fn page(runtime: &Runtime, config: &Config) -> Result<Demo, Failure> {
    let found = workspaces::find(runtime.access(), NAME.parse()?).await?;
    Ok(Demo {
        cx: runtime.access().inside(&found, Actor::Operator),
        inbox: inbox::INBOX.parse()?,
        uid: inbox::USER.parse()?,
        origin: config.http.public_url.clone(),
    })
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = Output::new(Layout::Lines);
    out.text(text)?;
    out.finish()
}

/// A port that somebody asked for must be free; any other will do.
async fn bind(args: &DemoArgs, address: SocketAddr) -> Result<TcpListener, Failure> {
    match serve::bind(address).await {
        Err(_) if args.listen.is_none() => serve::bind((address.ip(), 0).into()).await,
        bound => bound,
    }
}

/// Each step can be done again: whoever keeps his folder gets what is missing and a new key.
async fn fill(folder: &Folder, runtime: &Runtime, config: &Config) -> Result<Story, Failure> {
    let (cx, client, key) = enter(runtime.access()).await?;
    add_sender(&cx, client).await?;
    apply::take_in(&cx, &folder.mail()).await?;
    let imported = import_contacts(&cx, folder).await?;

    let to = contacts::first();
    let send = Send {
        idempotency_key: Some("demo-welcome".to_owned()),
        ..Send::of_template(client, to.parse()?, "welcome")
    };
    let accepted = Messages::new(Templates::default()).accept(&cx, send).await?;
    let workers = runtime.workers(config);
    let sending = workers.iter().find(|worker| *worker.queue == queues::TRANSACTIONAL_EMAIL);
    sending.context("nobody sends")?.run_until_idle().await?;
    let mail = first_mail(&cx).await?;
    let campaign = campaign::send(&cx, client, runtime, config).await?;
    // What happens to the mails happens after they were sent, and `cx` is one moment.
    let later = runtime.access().working_in(cx.workspace()).await?;
    let later = later.context("the workspace is gone")?;
    let reactions = reactions::bring(&later, runtime, config, mail.as_ref()).await?;
    let inside = sequences::begin(&cx, runtime, config).await?;
    let inbox = inbox::fill(&cx, runtime).await?;
    let reminders = reminders::fill(&cx).await?;
    Ok(Story {
        folder: folder.path.clone(),
        url: config.http.public_url.clone(),
        key,
        imported,
        message: accepted.id.get(),
        mail,
        campaign,
        reactions,
        inside,
        inbox,
        reminders,
    })
}

/// The workspace, the client and a new key: of an older one only the hash is kept.
async fn enter(access: &Access) -> Result<(Cx, ClientId, String), Failure> {
    let (workspace, slug) = (NAME.parse::<Workspace>()?, NAME.parse::<Slug>()?);
    let begin = Bootstrap { workspace: workspace.clone(), client: slug.clone() };
    match bootstrap(access, begin).await {
        Ok(made) => {
            let cx = access.inside(&made.workspace, Actor::Operator);
            Ok((cx, made.client.id, made.issued.api_key.expose()))
        }
        Err(BootstrapError::Done(_)) => {
            let found = workspaces::find(access, workspace).await?;
            let cx = access.inside(&found, Actor::Operator);
            let client = clients::find(&cx, slug.clone()).await?;
            let create = keys::Create {
                client: slug,
                name: format!("demo {}", cx.now()).parse::<DisplayName>()?,
                scopes: Scopes::all(),
                rate: keys::Rate::default(),
                expires_at: None,
                granted_by: keys::Granter::Operator,
            };
            let issued = keys::create(&cx, create).await?;
            Ok((cx, client.id, issued.api_key.expose()))
        }
        Err(error @ BootstrapError::Store(_)) => Err(error.into()),
    }
}

async fn add_sender(cx: &Cx, client: ClientId) -> Result<(), Failure> {
    let sender = NewSender {
        slug: "hello".parse()?,
        from_email: "hello@example.org".parse()?,
        from_name: Some("The demo shop".parse()?),
        reply_to: None,
        is_default: true,
    };
    match senders::add(cx, Add { client, sender }).await {
        Ok(_) | Err(AddError::Taken(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn import_contacts(cx: &Cx, folder: &Folder) -> Result<import::Counts, Failure> {
    let path = folder.contacts();
    let file = std::fs::File::open(&path).with_context(|| format!("{}", path.display()))?;
    let settings = import::Settings {
        audience: Some("newsletter".parse()?),
        source: "tidings demo, made-up people".to_owned(),
        ..import::Settings::default()
    };
    Ok(import::run(cx, file, settings, |_| {}).await?)
}

/// The oldest one that is kept: the headers as they would have gone out, and the text part.
async fn first_mail(cx: &Cx) -> Result<Option<story::Mail>, Failure> {
    let mut oldest: Option<CapturedId> = None;
    loop {
        let page = capture::list(cx, oldest, Limit::MAX).await?;
        oldest = page.items.last().map(|captured| captured.id).or(oldest);
        if page.next.is_none() {
            break;
        }
    }
    let Some(id) = oldest else { return Ok(None) };
    let raw = capture::raw(cx, id).await?;
    let text = capture::find(cx, id).await?.text.unwrap_or_default();
    Ok(Some(story::Mail { id: id.get(), headers: story::headers(&raw), text }))
}
