//! The examples of `examples/sequences`, as the demo's folder has them.

/// A file with its text.
macro_rules! example {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../examples/sequences/", $name)))
    };
}

/// Where the examples have the schema, which editors read. In the demo's folder it lies beside them.
pub(super) const SCHEMA: (&str, &str) =
    ("../../../docs/sequence.schema.json", "../sequence.schema.json");

/// The sequences and the mails that they send.
pub(super) const FILES: [(&str, &str); 21] = [
    example!("templates/onboarding/can-we-help.mjml"),
    example!("templates/onboarding/first-guest.mjml"),
    example!("templates/onboarding/first-project-template.mjml"),
    example!("templates/onboarding/first-project.mjml"),
    example!("templates/onboarding/invite-your-team.mjml"),
    example!("templates/onboarding/keyboard.mjml"),
    example!("templates/onboarding/welcome.mjml"),
    example!("templates/onboarding/what-next.mjml"),
    example!("templates/partials/lantern-account-footer.html"),
    example!("templates/partials/lantern-footer.html"),
    example!("templates/trial-ending/five-days.mjml"),
    example!("templates/trial-ending/last-day.mjml"),
    example!("templates/trial-ending/questions.mjml"),
    example!("templates/trial-ending/your-data.mjml"),
    example!("templates/win-back/goodbye.mjml"),
    example!("templates/win-back/one-question.mjml"),
    example!("templates/win-back/talk-to-us.mjml"),
    example!("templates/win-back/what-is-new.mjml"),
    example!("sequences/onboarding.yaml"),
    example!("sequences/trial-ending.yaml"),
    example!("sequences/win-back.yaml"),
];
