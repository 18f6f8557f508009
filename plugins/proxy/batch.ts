/**
 * Calls of one client batch go to an upstream as a batch, so that one bank of the node answers them. A call waits until every other call of
 * its batch waits or is answered, or for a moment; what waits then is sent together, in the order of the client's batch.
 */
import { gather } from '../../src/lib/gather.ts';
import { arrayItems, type JsonMember } from '../../src/lib/json.ts';
import { readRpcReply, rpcRequestHead, withId } from '../../src/lib/json-rpc.ts';
import type { RpcBatchSeat } from '../../src/plugin/host.ts';
import { type Clock, GateRefusal, type UpstreamPool } from '../../src/plugin/plugin.ts';
import type { Upstream, UpstreamReply } from '../../src/ports/upstream.ts';
import { createSemaphore } from '../../src/runtime/semaphore.ts';
import { isDenied } from '../../src/solana/node-errors.ts';
import {
  type AttemptOutcome,
  type AttemptRequest,
  attempt,
  discard,
  isSending,
  judgeAnswer,
  pauseOf,
  transportFailure,
  unusable,
} from './attempt.ts';

export interface Batches {
  /** Sends one call. With a seat, it goes in one request with the calls of its batch that are ready for this upstream. */
  attempt(upstream: Upstream, request: AttemptRequest, seat: RpcBatchSeat | null): Promise<AttemptOutcome>;
  /** The upstream that the first call of the batch prefers: the others follow it. */
  choice(seat: RpcBatchSeat | null): string | undefined;
  choose(seat: RpcBatchSeat | null, upstream: Upstream | undefined): void;
  /** Whether this failure is the one of a call before, of the same request to the upstream. Each is asked about once per call. */
  isTold(made: AttemptOutcome): boolean;
}

/** Below the 50 KiB that a node takes by default. */
const MAX_BODY_BYTES = 45_000;
/** A call that is looked up in the ledger or another method may hold up the others for so long. */
const MAX_WAIT_MS = 25;
/** How long an upstream that refused a batch gets single calls. */
const SINGLE_MS = 600_000;
const SINGLE_CONCURRENCY = 8;

/** Not repeated as a part of another request, or with answers so large that a batch of them would pass every limit. */
const ALONE = /^(?:send|request)|^(?:getBlock|getProgramAccounts|getProgramAccountsV2|getTransactionsForAddress)$/;

interface Waiting {
  readonly upstream: Upstream;
  readonly request: AttemptRequest;
  /** Deadline of the call, which runs while it waits; monotonic. */
  readonly untilMs: number;
  readonly resolve: (made: AttemptOutcome) => void;
  readonly reject: (error: unknown) => void;
}

interface BatchState {
  choice: string | undefined;
  waiting: Waiting[];
  /** Resolves when nothing of the batch is being sent. */
  sent: Promise<void>;
  cancelTimer: () => void;
}

export function createBatches(pool: UpstreamPool, clock: Clock): Batches {
  const states = new WeakMap<object, BatchState>();
  const told = new WeakSet<AttemptOutcome>();
  /** Upstreams that take no batches, and until when they are believed not to. */
  const singleUntil = new Map<string, number>();

  function stateOf(batch: object): BatchState {
    const state = states.get(batch) ?? {
      choice: undefined,
      waiting: [],
      sent: Promise.resolve(),
      cancelTimer: () => undefined,
    };
    states.set(batch, state);
    return state;
  }

  function flush(state: BatchState): void {
    state.cancelTimer();
    const groups = new Map<Upstream, Waiting[]>();
    for (const one of state.waiting.splice(0)) {
      const group = groups.get(one.upstream) ?? [];
      groups.set(one.upstream, group);
      group.push(one);
    }
    for (const [upstream, group] of groups) state.sent = state.sent.then(() => sendInOrder(upstream, group));
  }

  /** One request after the other, so that a later call is not answered by an older bank. Never throws. */
  async function sendInOrder(upstream: Upstream, group: readonly Waiting[]): Promise<void> {
    for (const part of partsOf(group)) {
      const takesBatches = (singleUntil.get(upstream.label) ?? Number.NEGATIVE_INFINITY) <= clock.monotonic();
      if (part.length === 1 || !takesBatches || !(await sendTogether(upstream, part))) await sendSingly(upstream, part);
    }
  }

  async function sendSingly(upstream: Upstream, part: readonly Waiting[]): Promise<void> {
    const places = createSemaphore({ concurrency: SINGLE_CONCURRENCY });
    await Promise.all(
      part.map(({ request, untilMs, resolve, reject }) => {
        const send = async (): Promise<AttemptOutcome> => {
          const timeoutMs = Math.ceil(untilMs - clock.monotonic());
          return timeoutMs <= 0 ? { kind: 'late' } : attempt(pool, upstream, { ...request, timeoutMs });
        };
        return places.run(send, { group: request.tenant.id }).then(resolve, reject);
      }),
    );
  }

  /** False: the upstream takes no batches, or not this one, and no call was answered. Never throws. */
  async function sendTogether(upstream: Upstream, part: readonly Waiting[]): Promise<boolean> {
    const timeoutMs = Math.ceil(Math.min(...part.map(({ untilMs }) => untilMs)) - clock.monotonic());
    const reply: Exchanged = timeoutMs <= 0 ? { kind: 'late' } : await exchange(pool, upstream, part, timeoutMs);
    if ('error' in reply) {
      for (const { reject } of part) reject(reply.error);
      return true;
    }
    if ('kind' in reply) {
      // An upstream that fails over a batch may answer most of its calls; with another one, that is asked instead.
      const isAlone = pool.candidates().length === 1;
      const isRefused =
        reply.kind === 'too-large' || (reply.kind === 'failed' && reply.sent && (isAlone || !reply.blame));
      if (!isRefused) for (const { resolve } of part) resolve(reply);
      else if (reply.kind === 'failed' && !reply.blame) singleUntil.set(upstream.label, clock.monotonic() + SINGLE_MS);
      return !isRefused;
    }
    const items = arrayItems(reply.bytes);
    if (items === null) {
      // What a node says instead of a list is about the batch: single calls find out whether it is about the node.
      singleUntil.set(upstream.label, clock.monotonic() + SINGLE_MS);
      return false;
    }
    const missing = unusable(reply.status);
    const answers = byNumber(reply.bytes, items);
    part.forEach(({ request, resolve }, number) => {
      const answer = answers.get(String(number)) ?? null;
      if (answer === null) resolve(missing);
      else if (answer.bytes.length > request.wholeBytes) resolve({ kind: 'too-large' });
      else resolve(judgeAnswer(reply, withId(answer.bytes, answer.id, request.id as string), request));
    });
    return true;
  }

  return {
    attempt(upstream, request, seat) {
      const batch = seat?.batch ?? null;
      if (seat === null || batch === null || request.id === undefined || ALONE.test(request.method))
        return attempt(pool, upstream, request);
      const state = stateOf(batch);
      return new Promise<AttemptOutcome>((resolve, reject) => {
        if (state.waiting.length === 0) state.cancelTimer = clock.timeout(MAX_WAIT_MS, () => flush(state));
        const untilMs = clock.monotonic() + request.timeoutMs;
        state.waiting.push({ upstream, request, untilMs, resolve, reject });
        seat.park(() => flush(state));
      }).finally(() => seat.resume());
    },
    choice: (seat) => (seat?.batch == null ? undefined : stateOf(seat.batch).choice),
    choose(seat, upstream) {
      if (seat?.batch != null) stateOf(seat.batch).choice ??= upstream?.label;
    },
    isTold(made) {
      if (made.kind === 'whole' || made.kind === 'stream' || made.kind === 'empty') return false;
      if (told.has(made)) return true;
      told.add(made);
      return false;
    },
  };
}

/** Parts that a node takes as one request. */
function partsOf(group: readonly Waiting[]): readonly (readonly Waiting[])[] {
  const parts: Waiting[][] = [];
  let bytes = 0;
  for (const one of group) {
    const { length } = one.request.body;
    if (parts.length === 0 || bytes + length > MAX_BODY_BYTES) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)!.push(one);
    bytes += length;
  }
  return parts;
}

/** The calls as one body, with their numbers as ids: clients may use one id twice. */
function bodyOf(part: readonly Waiting[]): Buffer {
  const pieces: Buffer[] = [];
  part.forEach(({ request: { method, id, body } }, number) => {
    const head = Buffer.byteLength(rpcRequestHead(method, id));
    pieces.push(
      Buffer.from(`${number === 0 ? '[' : ','}${rpcRequestHead(method, String(number))}`),
      body.subarray(head),
    );
  });
  pieces.push(Buffer.from(']'));
  return Buffer.concat(pieces);
}

/** A body that may be the list of answers; or what failed, for all calls alike. `error`: to be thrown to their callers. */
type Exchanged =
  | (Pick<UpstreamReply, 'status' | 'headers'> & { readonly bytes: Buffer })
  | Exclude<AttemptOutcome, { readonly kind: 'whole' | 'stream' | 'empty' }>
  | { readonly error: unknown };

async function exchange(
  pool: UpstreamPool,
  upstream: Upstream,
  part: readonly Waiting[],
  timeoutMs: number,
): Promise<Exchanged> {
  const requests = part.map(({ request }) => request);
  const [{ tenant, maxBytes }] = requests as [AttemptRequest];
  const { signal, leave } = whenAllAbort(requests);
  let body: UpstreamReply['body'] | null = null;
  try {
    const isRead = !requests.some(({ method }) => isSending(method));
    const reply = await pool.send(upstream, { body: bodyOf(part), timeoutMs, maxBytes, isRead, signal, tenant });
    body = reply.body;
    if (reply.status === 429) return { kind: 'limited', retryAfterMs: pauseOf(reply) };
    if (isDenied(reply.status)) return { kind: 'denied', status: reply.status };
    if (reply.status >= 300) return failure(reply.status);
    const lease = tenant.take('answerBytes', 0);
    try {
      const { bytes, ended } = await gather(reply.body, maxBytes, (count) => lease.set(count));
      return ended ? { status: reply.status, headers: reply.headers, bytes } : { kind: 'too-large' };
    } finally {
      // From here on the answers count one by one.
      lease.release();
    }
  } catch (error) {
    // A budget that has no room for all answers may have it for some.
    if (error instanceof GateRefusal) return { kind: 'too-large' };
    if (signal.aborted) return { error };
    return transportFailure(error, signal) as Exchanged;
  } finally {
    leave();
    if (body !== null) discard(body);
  }
}

const failure = (status: number) => unusable(status) as Extract<AttemptOutcome, { readonly kind: 'failed' }>;

/** Aborts when nobody waits any more. */
function whenAllAbort(requests: readonly AttemptRequest[]) {
  const controller = new AbortController();
  let left = requests.length;
  const onAbort = () => {
    left -= 1;
    if (left === 0) controller.abort(requests[0]!.signal.reason);
  };
  for (const { signal } of requests) {
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  }
  const leave = () => {
    for (const { signal } of requests) signal.removeEventListener('abort', onAbort);
  };
  return { signal: controller.signal, leave };
}

/** The answers by the text of their ids; one that came twice is none. */
function byNumber(
  bytes: Buffer,
  items: readonly Span[],
): Map<string, { readonly bytes: Buffer; readonly id: JsonMember } | null> {
  const found = new Map<string, { readonly bytes: Buffer; readonly id: JsonMember } | null>();
  for (const { start, end } of items) {
    const item = bytes.subarray(start, end);
    const id = readRpcReply(item)?.id ?? null;
    if (id === null) continue;
    const number = item.toString('utf8', id.start, id.end);
    found.set(number, found.has(number) ? null : { bytes: item, id });
  }
  return found;
}

type Span = Pick<JsonMember, 'start' | 'end'>;
