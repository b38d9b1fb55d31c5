// graphile-worker, measured as the queues beside it are: the same jobs, the same batches, the same server.
//
// node graphile.mjs <folder it is installed in> <database> <jobs> <jobs one by one> <trickle in milliseconds>
// prints one JSON object. Ends by itself.

import { createRequire } from "node:module";

const [folder, connectionString, jobs, singles, trickle] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");

const AT_ONCE = 1000;
const IN_FLIGHT = 64;
const EVERY_MS = 5;
const WARM_UP = 40;

// Its documentation on performance gives the second; the third is larger still. The first is without any batching.
const SETTINGS = [
  { label: "24 jobs at once", share: 0.1, concurrentJobs: 24 },
  {
    label: "24 jobs at once, local queue of 500, completions in batches",
    share: 1,
    concurrentJobs: 24,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
  {
    label: "100 jobs at once, local queue of 1,000, completions in batches",
    share: 1,
    concurrentJobs: 100,
    localQueue: { size: 1000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
];

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const pool = new Pool({ connectionString, max: 25 });
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

const perSecond = (count, begun) => count / ((performance.now() - begun) / 1000);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function start({ label, share, ...worker }, tasks) {
  return run({ preset: { worker: { ...worker, connectionString, maxPoolSize: 25, logger } }, taskList: tasks, noHandleSignals: true });
}

async function empty() {
  const { rows } = await pool.query("SELECT 1 FROM graphile_worker._private_jobs LIMIT 1");
  return rows.length === 0;
}

async function renew() {
  await pool.query("TRUNCATE graphile_worker._private_jobs");
}

async function addInBatches(count) {
  const begun = performance.now();
  for (let first = 0; first < count; first += AT_ONCE) {
    const length = Math.min(AT_ONCE, count - first);
    await utils.addJobs(Array.from({ length }, (_, n) => ({ identifier: "nothing", payload: { job: first + n } })));
  }
  return perSecond(count, begun);
}

async function addSingly(count) {
  let next = 0;
  const begun = performance.now();
  const sender = async () => {
    while (next < count) await utils.addJob("nothing", { job: next++ });
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, sender));
  return perSecond(count, begun);
}

// From its first job, so that its start is not counted, until nothing is left in its table.
async function drain(settings) {
  await renew();
  const count = Math.round(jobs * settings.share);
  const added = await addInBatches(count);
  // In a longer life its table has statistics, and with them it is up to half as fast again.
  await pool.query("ANALYZE graphile_worker._private_jobs");
  let done = 0;
  let begun;
  const nothing = async () => {
    if (done++ === 0) begun = performance.now();
  };
  const runner = await start(settings, { nothing });
  while (done < count || !(await empty())) await pause(2);
  const rate = perSecond(count, begun);
  await runner.stop();
  return { added, rate };
}

async function latency(settings) {
  await renew();
  const taken = [];
  const timed = async ({ sent }) => {
    taken.push(performance.now() - sent);
  };
  const runner = await start(settings, { timed });
  await pause(200);
  const adding = [];
  const begun = performance.now();
  for (let n = 0; performance.now() - begun < trickle; n++) {
    const wait = begun + n * EVERY_MS - performance.now();
    if (wait > 0) await pause(wait);
    adding.push(utils.addJob("timed", { sent: performance.now() }));
  }
  await Promise.all(adding);
  while (taken.length < adding.length) await pause(2);
  await runner.stop();
  const sorted = taken.slice(WARM_UP).sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)];
  return { p50: at(0.5), p99: at(0.99) };
}

await addSingly(200);
await renew();
const single = await addSingly(Number(singles));
const rows = [];
for (const settings of SETTINGS) {
  // The better of two: it is compared with the better of our two.
  const runs = [await drain(settings), await drain(settings)];
  const added = Math.max(...runs.map((run) => run.added));
  const rate = Math.max(...runs.map((run) => run.rate));
  const { p50, p99 } = await latency(settings);
  rows.push({ label: settings.label, added, rate, p50, p99 });
}
const { version } = require("graphile-worker/package.json");
console.log(JSON.stringify({ version, node: process.version, single, rows }));
await utils.release();
await pool.end();
