import { EXIT } from '../../src/lib/coded-error.ts';
import { tableLines, timeText } from '../../src/lib/table-lines.ts';
import type { CommandValues } from '../../src/plugin/plugin.ts';
import { CodedError, type Command, type CommandIo, RequestError } from '../../src/plugin/plugin.ts';
import type { AccessCharges } from '../../src/ports/access.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { ParsedTransactions } from '../../src/ports/parsed-transactions.ts';
import type { Store } from '../../src/ports/store.ts';
import type { BodyBuilder } from './bodies.ts';
import { DEFAULT_LINES, LISTEN_PORT, WEBHOOK_COMMANDS } from './command-list.ts';
import type { DeliveryQueue } from './delivery/queue.ts';
import { type Recovered, resendChoice, resendDeliveries, resendDelivery } from './delivery/resend.ts';
import type { SendDelivery } from './delivery/send.ts';
import { sendTestEvent } from './delivery/test-event.ts';
import { type HealthView, healthViews } from './health.ts';
import { instantOf, sinceOf, untilOf } from './input.ts';
import { type Arrival, startListener } from './listen.ts';
import { createHook, type ManageContext, removeHook } from './manage.ts';
import type { Delivery, Webhook } from './model.ts';
import type { HookReplays } from './replay.ts';
import { readAttempts } from './store/deliveries.ts';
import { MINUTE_MS, sumHealth } from './store/health.ts';
import { allHooks, hooksById, listHooks, readSecrets } from './store/hooks.ts';
import { readMissed } from './store/missed.ts';
import type { WebhookDb } from './store/tables.ts';

/** Commands for webhooks of all projects. */
export function webhookCommands(parts: WebhookCommandParts): readonly Command[] {
  return [
    createCommand(parts),
    listCommand(parts),
    showCommand(parts),
    testCommand(parts),
    tailCommand(parts),
    resendCommand(parts),
    replayCommand(parts),
    listenCommand(parts),
    deleteCommand(parts),
  ].map(withRefusals);
}

/** A command refuses with the same texts as a route. */
const withRefusals = (command: Command): Command => ({
  ...command,
  async run(options, io) {
    try {
      await command.run(options, io);
    } catch (error) {
      throw error instanceof RequestError ? usage(error.message) : error;
    }
  },
});

function createCommand({ context }: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.create,
    async run(options, io) {
      const project = String(options['project']);
      if ((await context.plans?.budgets(io.store.read, project)) === null)
        throw usage(`there is no project ${project}`);
      const member = (name: string, value: unknown) => (value === undefined ? {} : { [name]: value });
      const { hook, signingSecret } = await createHook(
        context,
        { projectId: project, wallet: null },
        {
          webhookURL: options['url'],
          ...member('accountAddresses', listOption(options, 'addresses')),
          ...member('webhookType', textOption(options, 'type')),
          ...member('transactionTypes', listOption(options, 'transactionTypes')),
          ...member('authHeader', textOption(options, 'authHeader')),
          ...member('parsedFilter', jsonOf(options, 'parsedFilter')),
        },
      );
      if (options['json'] === true) return io.json({ ...summaryOf(hook), signingSecret });
      io.line(`webhook ${hook.id} of project ${project}, ${hook.addressCount} addresses`);
      io.line(`signing secret ${signingSecret} (shown only once)`);
    },
  };
}

function deleteCommand({ context }: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.delete,
    async run(options, io) {
      const { id, projectId } = await hookOf(io, options);
      await removeHook(context, projectId, id);
      if (options['json'] === true) io.json({ id, deleted: true });
      else io.line(`webhook ${id} is deleted`);
    },
  };
}

function testCommand({ context, send, bodies, parsed }: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.test,
    async run(options, io) {
      const hook = await hookOf(io, options);
      const { clock, random } = context;
      const parts = { store: io.store, clock, random, send, builder: bodies, parsed };
      const result = await sendTestEvent(parts, hook, new AbortController().signal);
      if (options['json'] === true) io.json(result);
      const { delivered, statusCode, durationMs, failure } = result;
      const answer = statusCode === null ? (failure ?? 'no answer') : `HTTP ${statusCode}`;
      if (!delivered)
        throw new CodedError(
          'WEBHOOKS_TEST_FAILED',
          `the receiver did not accept it: ${answer} after ${durationMs} ms`,
          {
            exitCode: EXIT.temporary,
          },
        );
      if (options['json'] !== true) io.line(`delivered: ${answer} after ${durationMs} ms`);
    },
  };
}

const BODY_CHARS = 400;

function listenCommand({ context }: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.listen,
    async run(options, io) {
      const forward = textOption(options, 'forward');
      if (forward !== undefined && !/^https?:\/\//.test(forward))
        throw usage('--forward must be an http or https address');
      const count = integerOf(options, 'count', { min: 1, max: 1_000_000 }) ?? Number.POSITIVE_INFINITY;
      const given = textOption(options, 'secret');
      const secretsOf = async (webhookId: string): Promise<readonly string[]> => {
        if (given !== undefined) return [given];
        const { read, dialect } = io.store;
        const [hook] = await hooksById(read as WebhookDb, dialect, [webhookId]);
        if (hook === undefined) return [];
        return (
          (await readSecrets(read as WebhookDb, dialect, [hook.number], context.clock.now())).get(hook.number) ?? []
        );
      };
      const interrupted = whenInterrupted();
      let seen = 0;
      let finish = (): void => {};
      const done = new Promise<void>((resolve) => {
        finish = resolve;
      });
      interrupted.signal.addEventListener('abort', () => finish());
      const listener = await startListener({
        host: textOption(options, 'host') ?? '127.0.0.1',
        port: integerOf(options, 'port', { min: 0, max: 65_535 }) ?? LISTEN_PORT,
        ...(forward === undefined ? {} : { forward }),
        secretsOf,
        nowMs: () => context.clock.now(),
        arrived(arrival) {
          if (options['json'] === true) io.json(arrival);
          else io.line(textOfArrival(arrival));
          seen += 1;
          if (seen >= count) finish();
        },
      });
      const refusal = context.rules.urlRefusal(listener.url);
      if (options['json'] === true) io.json({ url: listener.url });
      else io.line(`listening on ${listener.url}${refusal === null ? '' : ` (${refusal})`}`);
      await done;
      interrupted.end();
      await listener.close();
    },
  };
}

function textOfArrival({ id, attempt, bytes, verified, status, body }: Arrival): string {
  const text = body.length > BODY_CHARS ? `${body.slice(0, BODY_CHARS)}…` : body;
  // Terminals interpret control characters.
  return `${id ?? '(no webhook-id)'} attempt ${attempt ?? '?'}, ${bytes} bytes, signature ${verified}, answered ${status}\n${text.replaceAll(/\p{Cc}/gu, ' ')}`;
}

const SHOWN = 10;
const COUNTED = 100_000;
const HOUR_MINUTES = 60;

function showCommand({ queue, context }: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.show,
    async run(options, io) {
      const hook = await hookOf(io, options);
      const db = io.store.read as WebhookDb;
      const since = Math.floor(context.clock.now() / MINUTE_MS) - HOUR_MINUTES + 1;
      const hour = await sumHealth(db, hook.number, since);
      const { waiting, held } = await queue.counts(hook, COUNTED);
      const [health] = await healthViews(db, queue, [hook], context.clock.now());
      const last = await deliveryLines(
        io.store,
        await queue.list(hook.id, { status: null, before: null, limit: SHOWN, signature: null }),
      );
      const counts = { waiting, held, deliveredLastHour: hour.succeeded, failedLastHour: hour.failed };
      const missed = await readMissed(db, hook.number);
      if (options['json'] === true) return io.json({ ...summaryOf(hook), ...counts, health, missed, deliveries: last });
      io.line(`${hook.type} webhook of project ${hook.projectId}, ${stateOf(hook)}, ${hook.addressCount} addresses`);
      if (hook.graceUntil !== null) io.line(`not disabled automatically before ${timeText(hook.graceUntil)} (UTC)`);
      io.line(`${waiting} waiting, ${held} held; last hour: ${hour.succeeded} delivered, ${hour.failed} failed`);
      if (health !== undefined) for (const line of healthLines(health)) io.line(line);
      for (const { fromSlot, toSlot, events, reason } of missed)
        io.line(
          `${events} events of slots ${fromSlot} to ${toSlot} were not stored (${reason}); a replay delivers them`,
        );
      if (last.length > 0) for (const line of tableLines(DELIVERY_HEAD, last.map(deliveryCells))) io.line(line);
    },
  };
}

/** `failing; 2 of 9 attempts of the last day succeeded; next attempt …`, and a bar for each of the last 28 days. */
function healthLines(health: HealthView): readonly string[] {
  const { state, attempts, nextAttemptAt, lastDeliveredAt, days } = health;
  const tried = attempts.succeeded + attempts.failed;
  const at = (time: string) => `${timeText(Date.parse(time))} (UTC)`;
  const parts = [
    state,
    tried === 0 ? 'no attempt in the last day' : `${attempts.succeeded} of ${tried} attempts of the last day succeeded`,
    ...(lastDeliveredAt === null ? [] : [`last delivery ${at(lastDeliveredAt)}`]),
    ...(nextAttemptAt === null ? [] : [`next attempt ${at(nextAttemptAt)}`]),
  ];
  const sums = days.map(({ succeeded, failed }) => succeeded + failed);
  const most = Math.max(...sums);
  if (most === 0) return [parts.join('; ')];
  const bars = sums.map((sum) => BARS[Math.ceil((sum * (BARS.length - 1)) / most)]).join('');
  const bad = days.map(({ failed }) => (failed > 0 ? 'x' : ' ')).join('');
  return [parts.join('; '), `28 days |${bars}|`, `failed  |${bad}|`];
}

const BARS = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

function listCommand({ queue, context }: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.list,
    async run(options, io) {
      const project = textOption(options, 'project');
      const db = io.store.read as WebhookDb;
      const hooks = project === undefined ? await allHooks(db) : await listHooks(db, project);
      const health = await healthViews(db, queue, hooks, context.clock.now());
      if (options['json'] === true)
        return io.json(hooks.map((hook, at) => ({ ...summaryOf(hook), health: health[at] })));
      if (hooks.length === 0) return io.line('no webhooks');
      const cells = hooks.map((hook, at) => [
        hook.id,
        hook.name ?? '-',
        hook.type,
        hook.active ? (health[at]?.state ?? '-') : stateOf(hook),
        rateText(health[at]),
        health[at]?.waiting ?? 0,
        hook.addressCount,
        hostOf(hook.url),
        hook.projectId,
        timeText(hook.createdAt),
      ]);
      for (const line of tableLines(LIST_HEAD, cells)) io.line(line);
    },
  };
}

const LIST_HEAD = [
  'ID',
  'NAME',
  'TYPE',
  'STATE',
  'OK 24 H',
  'WAITING',
  'ADDRESSES',
  'HOST',
  'PROJECT',
  'CREATED (UTC)',
] as const;

/** 99.9 % is not all. */
const rateText = (health: HealthView | undefined): string =>
  health?.successRate == null ? '-' : `${Math.floor(100 * health.successRate)} %`;

const stateOf = ({ active, disabledReason }: Webhook): string => (active ? 'on' : `off (${disabledReason ?? 'user'})`);

/** A webhook for scripts, without secrets of its receiver. */
function summaryOf(hook: Webhook): Record<string, unknown> {
  return {
    id: hook.id,
    name: hook.name,
    project: hook.projectId,
    type: hook.type,
    host: hostOf(hook.url),
    active: hook.active,
    disabledReason: hook.disabledReason,
    disabledAt: hook.disabledAt,
    graceUntil: hook.graceUntil,
    addresses: hook.addressCount,
    retryPreset: hook.retryPreset,
    batchSize: hook.batchSize,
    ordered: hook.ordered,
    onInactive: hook.onInactive,
    createdAt: hook.createdAt,
  };
}

/** A delivery on one line. Times are unix milliseconds. */
interface DeliveryLine {
  readonly id: number;
  readonly webhook: string;
  readonly status: string;
  readonly signature: string;
  readonly slot: number;
  readonly attempts: number;
  readonly lastStatus: number | null;
  readonly reason: string | null;
  readonly createdAt: number;
  readonly nextAttemptAt: number | null;
}

const DELIVERY_HEAD = ['ID', 'STATUS', 'CREATED (UTC)', 'SLOT', 'TRIED', 'HTTP', 'REASON', 'SIGNATURE'];

async function deliveryLines(store: Store, deliveries: readonly Delivery[]): Promise<readonly DeliveryLine[]> {
  const attempts = await readAttempts(
    store.read as WebhookDb,
    deliveries.map(({ id }) => id),
  );
  return deliveries.map((one) => {
    const tried = attempts.get(one.id) ?? [];
    return {
      id: one.id,
      webhook: one.webhookId,
      status: one.status,
      signature: one.payload.signature,
      slot: one.payload.slot,
      attempts: tried.length,
      lastStatus: tried.at(-1)?.status ?? null,
      reason: one.error,
      createdAt: one.createdAt,
      nextAttemptAt: one.nextAttemptAt,
    };
  });
}

const deliveryCells = (line: DeliveryLine): readonly (string | number)[] => [
  String(line.id),
  line.status,
  timeText(line.createdAt),
  String(line.slot),
  line.attempts,
  String(line.lastStatus ?? '-'),
  line.reason ?? '-',
  line.signature,
];

const POLL_MS = 500;
const MAX_LINES = 100;

function tailCommand({ queue, context }: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.tail,
    async run(options, io) {
      const hook = await hookOf(io, options);
      const lines = integerOf(options, 'lines', { min: 0, max: MAX_LINES }) ?? DEFAULT_LINES;
      const count = integerOf(options, 'count', { min: 1, max: 1_000_000 }) ?? Number.POSITIVE_INFINITY;
      const interrupted = whenInterrupted();
      const print = (line: DeliveryLine) => (options['json'] === true ? io.json(line) : io.line(textOfLine(line)));
      try {
        await follow({ queue, io, clock: context.clock, hookId: hook.id, lines, count, print }, interrupted.signal);
      } finally {
        interrupted.end();
      }
    },
  };
}

interface Follow {
  readonly queue: DeliveryQueue;
  readonly io: CommandIo;
  readonly clock: Clock;
  readonly hookId: string;
  readonly lines: number;
  readonly count: number;
  print(line: DeliveryLine): void;
}

/** Polls the newest deliveries and prints new and changed ones. */
async function follow(parts: Follow, signal: AbortSignal): Promise<void> {
  const { queue, io, clock, hookId, lines, print } = parts;
  let known = new Map<number, string>();
  let left = parts.count;
  for (let isFirst = true; !signal.aborted && left > 0; isFirst = false) {
    const found = await queue.list(hookId, { status: null, before: null, limit: MAX_LINES, signature: null });
    const all = [...(await deliveryLines(io.store, found))].reverse();
    const next = new Map(all.map((line) => [line.id, JSON.stringify(line)]));
    const shown = isFirst ? all.slice(all.length - Math.min(lines, all.length)) : all;
    for (const line of shown) {
      if (known.get(line.id) === next.get(line.id)) continue;
      print(line);
      left -= 1;
      if (left <= 0) return;
    }
    known = next;
    await clock.sleep(POLL_MS, signal).catch(() => {});
  }
}

function textOfLine({ id, status, signature, slot, attempts, lastStatus, reason }: DeliveryLine): string {
  const times = attempts === 1 ? 'once' : `${attempts} times`;
  const tried = attempts === 0 ? 'not tried' : `tried ${times}, HTTP ${lastStatus ?? '-'}`;
  return `${id} ${status} slot ${slot} ${signature} ${tried}${reason === null ? '' : ` (${reason})`}`;
}

const SLOT = { min: 0, max: Number.MAX_SAFE_INTEGER };

function replayCommand(parts: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.replay,
    async run(options, io) {
      const hook = await hookOf(io, options);
      const fromSlot = integerOf(options, 'from', SLOT);
      const toSlot = integerOf(options, 'to', SLOT);
      const since = textOption(options, 'since');
      if ((since === undefined) === (fromSlot === undefined)) throw usage('give either --since or --from and --to');
      if (since !== undefined) {
        const range = { ...resendChoice('undelivered'), waiting: false, ...anyTimesOf(options, parts.context) };
        return tellQueued(options, io, await resendDeliveries({ ...parts, store: io.store }, hook, range));
      }
      if (fromSlot === undefined || toSlot === undefined) throw usage('--from requires --to');
      if (toSlot < fromSlot) throw usage('--to must not be below --from');
      if (parts.replays === null) throw usage('the chain cannot be read again here');
      const range = { fromSlot, toSlot, force: options['force'] === true };
      const { id } = await parts.replays.begin(parts.context, hook.projectId, hook.id, range);
      if (options['json'] === true) io.json({ replayId: id, fromSlot, toSlot });
      else io.line(`the daemon replays slots ${fromSlot} to ${toSlot} in the background`);
    },
  };
}

function resendCommand(parts: WebhookCommandParts): Command {
  return {
    ...WEBHOOK_COMMANDS.resend,
    async run(options, io) {
      const hook = await hookOf(io, options);
      const { queue, charges, context } = parts;
      const on = { store: io.store, queue, charges };
      const one = integerOf(options, 'delivery', { min: 1, max: Number.MAX_SAFE_INTEGER });
      if (one !== undefined) {
        if (['status', 'since', 'until'].some((name) => textOption(options, name) !== undefined))
          throw usage('--delivery names one delivery: leave out --status, --since and --until');
        const delivery = await queue.get(hook.id, one);
        if (delivery === null) throw usage(`webhook ${hook.id} has no delivery ${one}`);
        await resendDelivery(on, hook, delivery);
        return tellQueued(options, io, { queued: 1, remaining: 0 });
      }
      const range = { ...resendChoice(textOption(options, 'status')), ...timesOf(options, context) };
      tellQueued(options, io, await resendDeliveries(on, hook, range));
    },
  };
}

function tellQueued(options: CommandValues, io: CommandIo, { queued, remaining }: Recovered): void {
  const rest = remaining === 0 ? '' : `; ${remaining} more are left: run it again`;
  if (options['json'] === true) io.json({ queued, remaining });
  else io.line(`${queued} ${queued === 1 ? 'delivery is' : 'deliveries are'} sent now, or when the daemon runs${rest}`);
}

/** Errors: RequestError. */
function timesOf(
  options: CommandValues,
  { clock, config }: ManageContext,
): { readonly sinceMs: number; readonly untilMs: number } {
  const now = clock.now();
  const sinceMs = sinceOf(timeOf(textOption(options, 'since')) ?? null, now, config.retention.failedDays);
  return { sinceMs, untilMs: untilOf(timeOf(textOption(options, 'until')), now, sinceMs) };
}

/** Like `timesOf`, for the older name of the command: it takes any date, and what is no longer kept is not sent. */
function anyTimesOf(
  options: CommandValues,
  { clock }: ManageContext,
): { readonly sinceMs: number; readonly untilMs: number } {
  const now = clock.now();
  const sinceMs = instantOf('--since', timeOf(textOption(options, 'since')), now);
  return { sinceMs, untilMs: untilOf(timeOf(textOption(options, 'until')), now, sinceMs) };
}

const timeOf = (text: string | undefined): string | number | undefined =>
  text !== undefined && /^\d+$/.test(text) ? Number(text) : text;

export interface WebhookCommandParts {
  readonly context: ManageContext;
  readonly queue: DeliveryQueue;
  readonly send: SendDelivery;
  readonly bodies: BodyBuilder;
  readonly parsed: ParsedTransactions | null;
  readonly replays: HookReplays | null;
  readonly charges: AccessCharges | null;
}

const usage = (message: string): CodedError => new CodedError('WEBHOOKS_USAGE', message, { exitCode: EXIT.usage });

/** The text of an option; undefined when it was not given. */
function textOption(options: CommandValues, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

/** The value of an option that is given as JSON; undefined when it was not given. Errors: WEBHOOKS_USAGE. */
function jsonOf(options: CommandValues, name: string): unknown {
  const text = textOption(options, name);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw usage(`--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)} must be JSON`);
  }
}

/** The items of an option; undefined when it was not given. */
const listOption = (options: CommandValues, name: string): readonly string[] | undefined =>
  textOption(options, name)
    ?.split(/[\s,]+/)
    .filter((item) => item !== '');

/** An integer of an option within bounds. Errors: WEBHOOKS_USAGE. */
function integerOf(options: CommandValues, name: string, bounds: { readonly min: number; readonly max: number }) {
  const text = textOption(options, name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= bounds.min && value <= bounds.max) return value;
  throw usage(`--${name} must be a whole number from ${bounds.min} to ${bounds.max}`);
}

/** The webhook that `--id` names, of any project. Errors: WEBHOOKS_USAGE. */
async function hookOf({ store }: Pick<CommandIo, 'store'>, options: CommandValues): Promise<Webhook> {
  const id = String(options['id']).toLowerCase();
  const [hook] = await hooksById(store.read as WebhookDb, store.dialect, [id]);
  if (hook === undefined) throw usage(`there is no webhook ${id}`);
  return hook;
}

/** Scheme and host: the rest may contain a secret. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : '-';
}

function whenInterrupted(): { readonly signal: AbortSignal; end(): void } {
  const control = new AbortController();
  const stop = () => control.abort();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, stop);
  return {
    signal: control.signal,
    end() {
      for (const name of ['SIGINT', 'SIGTERM'] as const) process.removeListener(name, stop);
    },
  };
}
