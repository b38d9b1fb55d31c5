-- Those whose claim is over are looked for within their campaign, by its status. To keep this up cost two changes for each mail.
DROP INDEX campaign_recipients_lease;
