//! Text in, text out: Liquid, MJML, the text part, link rewriting. No IO.
