//! A message on paper: MIME, headers, DKIM, inbound parsing, and the senders over SMTP and into capture.
