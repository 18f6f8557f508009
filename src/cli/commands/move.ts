import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError, codeOf, EXIT, messageOf } from '../../lib/coded-error.ts';
import { tableLines } from '../../lib/table-lines.ts';
import type { CliIo, CommandValues, RunCommand } from '../command.ts';
import { applyPlan, type MoveResult, switchOver, verifyMove } from '../move/apply.ts';
import { type CostReport, costOf, PRICES, readPrices } from '../move/cost.ts';
import { type PlannedWebhook, readHelius, readQuickNode, readSaved } from '../move/hosted.ts';
import { createService, moveUsage, readKeyOfService, type Service } from '../move/service.ts';
import { createSecrets, lockState, readMoveState, writeState } from '../move/state.ts';

const HOSTED = {
  helius: { url: 'https://api-mainnet.helius-rpc.com', keyHeader: null },
  quicknode: { url: 'https://api.quicknode.com', keyHeader: 'x-api-key' },
} as const;
const DEFAULT_STATE = 'parhelion-move.json';
const DEFAULT_INTERVAL_S = 60;
/** What the service says in the plan is shortened for a terminal. */
const LISTED = 200;

/** Shows what would come along; changes nothing, on neither side. */
export const plan: RunCommand = async (values, io) => {
  const planned = await createReader(values, io)();
  if (values['json'] === true)
    io.out(JSON.stringify(planned.map(({ wanted, ...rest }) => ({ ...rest, kind: kindOf({ wanted, ...rest }) }))));
  else showPlan(planned, io);
  return EXIT.ok;
};

/** Creates and changes ours; see `applyPlan`. */
export const run: RunCommand = async (values, io) => {
  const read = createReader(values, io);
  const daemon = daemonOf(values, io);
  const file = stateFile(values, io);
  const mirror = values['mirror'] === true;
  const intervalMs = secondsOption(values, 'interval', DEFAULT_INTERVAL_S) * 1_000;
  const unlock = lockState(file);
  try {
    const state = readMoveState(file, sourceOf(values, io), daemon.host);
    const save = () => writeState(file, state);
    if (values['switch'] === true) {
      const count = await switchOver({ daemon, state, save });
      io.out(
        `${count} webhooks are on. Turn those of the hosted service off now: until then receivers get events from both`,
      );
      return EXIT.ok;
    }
    if (state.switched) throw moveUsage(`${file}: this move has been switched; its webhooks are no longer followed`);
    const secrets = createSecrets(pathOption(values, io, 'secrets'));
    for (let isFirst = true; ; isFirst = false) {
      const results = await attempt(async () =>
        applyPlan({ daemon, state, save, secrets, inactive: values['inactive'] === true, mirror }, await read()),
      );
      if (results instanceof Error) {
        if (isFirst || !mirror) throw results;
        io.err(`${messageOf(results)}; the next round tries again`);
      } else if (values['json'] === true) io.out(JSON.stringify(results));
      else showResults(results, io, isFirst);
      if (!mirror) return EXIT.ok;
      await sleep(intervalMs);
    }
  } finally {
    unlock();
  }
};

/** What the deliveries of ours say. */
export const verify: RunCommand = async (values, io) => {
  const daemon = daemonOf(values, io);
  const file = stateFile(values, io);
  const state = readMoveState(file, sourceOf(values, io), daemon.host);
  const results = await verifyMove(daemon, state, values['test'] === true);
  const failing = results.filter(({ verdict }) => verdict === 'fails').length;
  if (values['json'] === true) io.out(JSON.stringify(results));
  else {
    const rows = results.map(({ theirs, ours, verdict, detail }) => [theirs, ours, verdict, detail]);
    for (const line of tableLines(['THEIRS', 'OURS', 'VERDICT', 'DETAIL'], rows)) io.out(line);
    const count = (wanted: string) => results.filter(({ verdict }) => verdict === wanted).length;
    io.out(`${count('delivers')} deliver, ${count('silent')} are silent, ${count('off')} are off, ${failing} fail`);
  }
  return failing === 0 ? EXIT.ok : EXIT.negative;
};

/** Dollars there and here for one month of usage. */
export const cost: RunCommand = async (values, io) => {
  const saved = pathOption(values, io, 'usage');
  const project = textOption(values, 'project');
  if ((saved === null) === (project === null)) throw moveUsage('one of --usage and --project is needed');
  const used: unknown =
    saved !== null
      ? JSON.parse(readText(saved))
      : await hostedOf(values, io).ask('GET', `/v0/admin/projects/${encodeURIComponent(project as string)}/usage`);
  const prices = pathOption(values, io, 'prices');
  const report = costOf(used, prices === null ? PRICES : readPrices(readText(prices)));
  if (values['json'] === true) io.out(JSON.stringify(report));
  else showCost(report, io);
  return EXIT.ok;
};

async function attempt<T>(work: () => Promise<T>): Promise<T | Error> {
  try {
    return await work();
  } catch (error) {
    if (codeOf(error)?.startsWith('MOVE_')) return error as Error;
    throw error;
  }
}

/** Reads the webhooks of the source anew with each call. */
function createReader(values: CommandValues, io: CliIo): () => Promise<PlannedWebhook[]> {
  const from = textOption(values, 'from');
  if (from === 'file') {
    const file = pathOption(values, io, 'file');
    if (file === null) throw moveUsage('--from file needs --file');
    return async () => readSaved(readText(file));
  }
  const service = hostedOf(values, io);
  return () => (from === 'quicknode' ? readQuickNode(service) : readHelius(service));
}

function hostedOf(values: CommandValues, io: CliIo): Service {
  const from = textOption(values, 'from') === 'quicknode' ? 'quicknode' : 'helius';
  const names = { option: '--from-key-file', variable: 'PARHELION_MOVE_FROM_KEY' };
  return createService({
    option: '--from-url',
    url: textOption(values, 'fromUrl') ?? HOSTED[from].url,
    key: readKeyOfService(pathOption(values, io, 'fromKeyFile'), io.env[names.variable], names),
    keyHeader: HOSTED[from].keyHeader,
  });
}

function daemonOf(values: CommandValues, io: CliIo): Service {
  const names = { option: '--key-file', variable: 'PARHELION_MOVE_KEY' };
  return createService({
    option: '--url',
    url: String(values['url']),
    key: readKeyOfService(pathOption(values, io, 'keyFile'), io.env[names.variable], names),
    keyHeader: 'x-api-key',
  });
}

/** Names the source in the file of the state: service and host, or the name of the file. */
function sourceOf(values: CommandValues, io: CliIo): string {
  const from = String(values['from']);
  if (from === 'file') return `file ${pathOption(values, io, 'file') ?? ''}`;
  const url = textOption(values, 'fromUrl') ?? HOSTED[from as keyof typeof HOSTED].url;
  return `${from} ${URL.canParse(url) ? new URL(url).host : ''}`;
}

const textOption = (values: CommandValues, name: string): string | null =>
  typeof values[name] === 'string' ? values[name] : null;

function pathOption(values: CommandValues, io: CliIo, name: string): string | null {
  const text = textOption(values, name);
  return text === null ? null : resolve(io.cwd, text);
}

const stateFile = (values: CommandValues, io: CliIo) =>
  pathOption(values, io, 'state') ?? resolve(io.cwd, DEFAULT_STATE);

function secondsOption(values: CommandValues, name: string, standard: number): number {
  const text = textOption(values, name);
  if (text === null) return standard;
  if (!/^\d{1,6}$/.test(text) || Number(text) < 1) throw moveUsage(`--${name} must be a number of seconds`);
  return Number(text);
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new CodedError('MOVE_USAGE', messageOf(error), { exitCode: EXIT.usage });
  }
}

const kindOf = ({ wanted, reasons }: PlannedWebhook) =>
  wanted === null ? 'impossible' : reasons.length === 0 ? 'one to one' : 'changed';

function showPlan(planned: readonly PlannedWebhook[], io: CliIo): void {
  const rows = planned
    .slice(0, LISTED)
    .map((one) => [one.id, kindOf(one), `${one.what}${one.active ? '' : ', off'}`, one.reasons.join('; ')]);
  for (const line of tableLines(['THEIRS', 'PLAN', 'WHAT', 'WHY'], rows)) io.out(line);
  if (planned.length > LISTED) io.out(`… and ${planned.length - LISTED} more; --json shows all`);
  const count = (kind: string) => planned.filter((one) => kindOf(one) === kind).length;
  io.out(
    `${count('one to one')} come along one to one, ${count('changed')} with changes, ${count('impossible')} cannot`,
  );
}

function showResults(results: readonly MoveResult[], io: CliIo, isFirst: boolean): void {
  const told = results.filter(({ act }) => act !== 'same');
  const rows = told
    .slice(0, LISTED)
    .map(({ theirs, ours, act, reasons }) => [theirs, ours ?? '-', act, reasons.join('; ')]);
  if (rows.length > 0) for (const line of tableLines(['THEIRS', 'OURS', 'ACT', 'WHY'], rows)) io.out(line);
  if (told.length > LISTED) io.out(`… and ${told.length - LISTED} more; --json shows all`);
  const acts = ['created', 'found', 'changed', 'same', 'deleted', 'gone', 'refused', 'impossible'] as const;
  const counts = acts.flatMap((act) => {
    const count = results.filter((result) => result.act === act).length;
    return count === 0 ? [] : [`${count} ${act}`];
  });
  if (isFirst || told.length > 0) io.out(counts.length === 0 ? 'there are no webhooks' : counts.join(', '));
}

const dollars = (amount: number): string => `$${amount.toFixed(2)}`;

function showCost(report: CostReport, io: CliIo): void {
  const rows = report.rows.map((row) => [
    row.product,
    row.credits,
    row.requests === null ? '-' : String(row.requests),
    dollars(row.usdThere),
    row.upstreamCalls,
    dollars(row.usdHere),
  ]);
  for (const line of tableLines(['PRODUCT', 'CREDITS', 'REQUESTS', 'THERE', 'UPSTREAM CALLS HERE', 'HERE'], rows))
    io.out(line);
  io.out(
    `there: ${dollars(report.usdThere)} a month, plan ${report.plan} (${report.service}, prices of ${report.date}, ${report.source})`,
  );
  io.out(
    `here: ${dollars(report.usdHere)} a month: machine ${dollars(report.usdMachine)}, following the chain ${dollars(report.usdFollowing)} (${report.followingCalls} calls), forwarded calls ${dollars(report.usdHere - report.usdMachine - report.usdFollowing)}`,
  );
  if (report.usdMachine === 0)
    io.out(
      'the costs of your machine and upstreams are not known: name them in --prices as own.machineUsdPerMonth and own.upstreamUsdPerMillionCalls',
    );
}
