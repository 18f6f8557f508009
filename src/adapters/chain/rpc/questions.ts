import type { CoreConfig } from '../../../config/core.ts';
import { CodedError, messageOf } from '../../../lib/coded-error.ts';
import { parseExact } from '../../../lib/json.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { BlockHeader } from '../../../ports/block.ts';
import type { AskOptions } from '../../../ports/chain.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { UpstreamPool } from '../../../ports/upstream.ts';
import { decodeHeader } from '../../../solana/decode/response.ts';
import { meaningOfNodeError } from '../../../solana/node-errors.ts';
import { isOwnParent, OWN_PARENT, stateOfBlock } from './block-request.ts';
import { callRefused, type RpcClient, resultText } from './client.ts';

type QuestionLimits = Pick<CoreConfig['follow'], 'requestTimeoutMs' | 'maxSupportedTransactionVersion'>;

interface QuestionsParts {
  readonly client: RpcClient;
  readonly pool: UpstreamPool;
  readonly limits: QuestionLimits;
  readonly clock: Clock;
}

const FIRST_AVAILABLE_TTL_MS = 60_000;
const SMALL_ANSWER_BYTES = 8 * 1024 * 1024;
/** Deadline of a question to every upstream: a dead one must not hold up the others. */
const TIP_TIMEOUT_MS = 4_000;

const unreachable = (message: string) => new CodedError('CHAIN_UNREACHABLE', message, { retryable: true });

type RequestOptions = Pick<AskOptions, 'signal' | 'avoid'> & {
  /** Less than the deadline of all calls. */
  readonly timeoutMs?: number;
};

/** Expected shape of a small result. */
interface Form<T> {
  readonly name: string;
  fits(value: unknown): boolean;
  isEmpty?(value: T): boolean;
}

const isSlot = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
export const SLOT: Form<number> = { name: 'slot', fits: isSlot };

/** A node that lost a range lists no slots there: an empty list is accepted only when no upstream returns more. */
export const slotsForm = (from: number, to: number): Form<number[]> => ({
  name: 'list of slots in the range',
  fits: (value) => Array.isArray(value) && value.every((slot) => isSlot(slot) && slot >= from && slot <= to),
  isEmpty: (slots) => slots.length === 0,
});

/** What the follower asks of the upstreams besides blocks. */
export class ChainQuestions {
  private readonly client: RpcClient;
  private readonly pool: UpstreamPool;
  /** Read anew for each call, because a reload may change them. */
  private readonly limits: QuestionLimits;
  private readonly clock: Clock;
  private first: { readonly slot: number; readonly until: number } | null = null;

  constructor({ client, pool, limits, clock }: QuestionsParts) {
    this.client = client;
    this.pool = pool;
    this.limits = limits;
    this.clock = clock;
  }

  /** Integers above 2^53 become bigints. Undefined: no upstream has an answer. */
  async exactly(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const answered = await this.client
      .ask({
        method,
        params,
        signal,
        tenant: OWN_WORK,
        timeoutMs: this.limits.requestTimeoutMs,
        maxBytes: SMALL_ANSWER_BYTES,
        isFinal: () => false,
        scan: resultText,
        check: (text) => (typeof text === 'string' && !isJson(text) ? `its answer to ${method} is not JSON` : null),
      })
      .catch(() => null);
    const result = answered?.result;
    return typeof result === 'string' ? parseExact(result) : result;
  }

  async small<T>(method: string, params: readonly unknown[], form: Form<T>, options: RequestOptions): Promise<T> {
    const { result, error } = await this.client.ask({
      method,
      params,
      signal: options.signal,
      tenant: OWN_WORK,
      avoid: options.avoid ?? [],
      timeoutMs: Math.min(this.limits.requestTimeoutMs, options.timeoutMs ?? Number.POSITIVE_INFINITY),
      maxBytes: SMALL_ANSWER_BYTES,
      isFinal: () => false,
      check: (value) => (form.fits(value) ? null : `its answer to ${method} is no ${form.name}`),
      isEmpty: (value) => form.isEmpty?.(value as T) ?? false,
    });
    if (error !== undefined) throw callRefused(method, error);
    return result as T;
  }

  /** Undefined: the upstream did not answer, or with an error. */
  async ofOne(label: string, method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const answered = await this.client
      .ask({
        method,
        params,
        signal,
        tenant: OWN_WORK,
        avoid: this.others(label),
        timeoutMs: Math.min(this.limits.requestTimeoutMs, TIP_TIMEOUT_MS),
        maxBytes: SMALL_ANSWER_BYTES,
      })
      .catch(() => null);
    return answered?.result;
  }

  async header(slot: number, options: AskOptions): Promise<BlockHeader | null> {
    const { result, error } = await this.client.ask({
      method: 'getBlock',
      params: [
        slot,
        {
          transactionDetails: 'none',
          rewards: false,
          commitment: options.commitment,
          maxSupportedTransactionVersion: this.limits.maxSupportedTransactionVersion,
        },
      ],
      signal: options.signal,
      tenant: OWN_WORK,
      avoid: options.avoid ?? [],
      timeoutMs: this.limits.requestTimeoutMs,
      maxBytes: SMALL_ANSWER_BYTES,
      isFinal: () => false,
      check: (value) => (value === null ? null : faultOfHeader(slot, value)),
      isEmpty: (value) => value === null,
    });
    if (error !== undefined) {
      const meaning = meaningOfNodeError(error, 'getBlock');
      if (meaning !== 'version' && stateOfBlock(meaning) === null)
        throw callRefused('getBlock', error, `getBlock ${slot}`);
      return null;
    }
    return result === null ? null : decodeHeader(slot, result);
  }

  /** The newest slot that one of them reports; asked of all of them. */
  async highestTip({ commitment, signal }: Pick<AskOptions, 'commitment' | 'signal'>): Promise<number> {
    const candidates = this.pool.candidates();
    // One is asked as always: that call takes its time when it fails, which its callers rely on.
    if (candidates.length < 2) return await this.small('getSlot', [{ commitment }], SLOT, { signal });
    const tips = await Promise.allSettled(
      candidates.map(({ label }) =>
        this.small('getSlot', [{ commitment }], SLOT, {
          signal,
          avoid: this.others(label),
          timeoutMs: TIP_TIMEOUT_MS,
        }),
      ),
    );
    signal.throwIfAborted();
    const known = tips.flatMap((tip) => (tip.status === 'fulfilled' ? [tip.value] : []));
    if (known.length === 0) throw unreachable('no upstream reports its slot');
    return Math.max(...known);
  }

  /** The lowest slot that one of them still has; remembered for a while. */
  async firstAvailable(signal: AbortSignal): Promise<number> {
    const now = this.clock.monotonic();
    if (this.first === null || this.first.until <= now) {
      const slots = await Promise.allSettled(
        this.pool
          .candidates()
          .map(({ label }) => this.small('getFirstAvailableBlock', [], SLOT, { signal, avoid: this.others(label) })),
      );
      const known = slots.flatMap((slot) => (slot.status === 'fulfilled' ? [slot.value] : []));
      if (known.length === 0) throw unreachable('no upstream reports its first available block');
      this.first = { slot: Math.min(...known), until: now + FIRST_AVAILABLE_TTL_MS };
    }
    return this.first.slot;
  }

  /** The remembered first slot may be of another chain. */
  forgetFirst(): void {
    this.first = null;
  }

  /** All upstreams but one. */
  others(label: string): readonly string[] {
    return this.pool.states().flatMap((state) => (state.label === label ? [] : [state.label]));
  }
}

function isJson(text: string): boolean {
  try {
    parseExact(text);
    return true;
  } catch {
    return false;
  }
}

function faultOfHeader(slot: number, value: unknown): string | null {
  try {
    return isOwnParent(decodeHeader(slot, value)) ? OWN_PARENT : null;
  } catch (error) {
    return messageOf(error);
  }
}
