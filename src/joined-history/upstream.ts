import { CodedError, codeOf } from '../lib/coded-error.ts';
import { arrayItems } from '../lib/json.ts';
import { OWN_WORK, type Tenant } from '../ports/access.ts';
import type { ChainCallOptions, ChainReader, Commitment } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { ListedSignature, SignatureQuery, SlotQuery } from '../ports/ledger.ts';
import { Contradiction } from './ends.ts';

/** The tips of an upstream are asked for again after this time. */
const TIP_MS = 200;
/** An upstream that hangs must not hold up what the ledger knows. */
const TIP_TIMEOUT_MS = 2_000;
/** The first slot of the upstreams is asked for again after this time, so that it is known when they are gone. */
const FIRST_MS = 60_000;
/** Nodes remove their oldest blocks: the first slot moves by less than this until it is asked for again. */
const FIRST_MOVES_SLOTS = 1_000;

/** Codes of a node: Agave 4.4.0, rpc-client-api/src/custom_error.rs. */
const NO_HISTORY = -32011;
const NOT_FOUND = -32020;

/** What an upstream said, and its label; `refused` with the code of the node, `silent` when none answers. */
export type UpstreamAnswer<T> =
  | { readonly kind: 'answered'; readonly value: T; readonly by: string | undefined }
  | { readonly kind: 'refused'; readonly code: number; readonly error: unknown; readonly by: string | undefined }
  | { readonly kind: 'silent'; readonly error: unknown };

/** The newest slot of an upstream, and its label. */
export interface Tip {
  readonly slot: number;
  readonly by: string | undefined;
}

type How = Pick<ChainCallOptions, 'only' | 'answeredBy'>;

type SignatureCall = Pick<SignatureQuery, 'address' | 'commitment' | 'tenant' | 'before' | 'until' | 'limit'> & {
  readonly minSlot: number;
  readonly finalSlot: number;
};

/** `only`: the label of the upstream whose tip is known; undefined: any. */
export type SlotAsker = Pick<SlotQuery, 'commitment' | 'tenant'> & { readonly only?: string | undefined };

export type UpstreamSide = ReturnType<typeof createUpstreamSide>;

/** What upstreams say of the chain: their tips, where their blocks begin, and their lists. Each answer has the label of the one that gave it. */
export function createUpstreamSide(chain: Pick<ChainReader, 'call' | 'callText'>, clock: Clock) {
  const tips = new Map<Commitment, { readonly at: number; readonly tip: Promise<Tip | null> }>();
  let first: { readonly slot: number; readonly at: number } | null = null;
  let isLearning = false;

  /** `only`: the label of the upstream to ask; undefined: any. */
  async function ask<T>(work: (how: How) => Promise<T>, only?: string): Promise<UpstreamAnswer<T>> {
    let by = only;
    const answeredBy = (upstream: string) => {
      by = upstream;
    };
    try {
      return { kind: 'answered', value: await work({ ...(only === undefined ? {} : { only }), answeredBy }), by };
    } catch (error) {
      const code = codeOf(error) === 'CHAIN_RPC_ERROR' ? (error as CodedError).facts?.['rpcCode'] : undefined;
      return typeof code === 'number' ? { kind: 'refused', code, error, by } : { kind: 'silent', error };
    }
  }

  /** Null when no upstream answers. */
  async function tipNow(commitment: Commitment): Promise<Tip | null> {
    const now = clock.monotonic();
    const known = tips.get(commitment);
    if (known !== undefined && now - known.at < TIP_MS) return await known.tip;
    const found = ask((how) =>
      chain.call<number>('getSlot', [{ commitment }], { ...how, tenant: OWN_WORK, timeoutMs: TIP_TIMEOUT_MS }),
    ).then((asked) =>
      asked.kind === 'answered' && Number.isSafeInteger(asked.value) ? { slot: asked.value, by: asked.by } : null,
    );
    tips.set(commitment, { at: now, tip: found });
    return await found;
  }

  const tip = async (commitment: Commitment): Promise<number | null> => (await tipNow(commitment))?.slot ?? null;

  const forgetTips = (): void => tips.clear();

  /** While nothing that is held is known as final: the slot of an upstream that lacks what is held, so that it may lack final blocks too; else null. */
  async function behindHeld(newestSlot: number): Promise<number | null> {
    const known = newestSlot < 0 ? null : await tip('confirmed');
    if (known === null || known >= newestSlot) return null;
    // It may have been asked before that block was there.
    tips.delete('confirmed');
    const now = await tip('confirmed');
    return now !== null && now < newestSlot ? now : null;
  }

  /** The first slot of an upstream, or of one of those that keep the most; null when it was never learned, and when that upstream is silent. */
  async function firstSlot(tenant: Tenant, only?: string): Promise<number | null> {
    const asked = await ask(
      (how) => chain.call<number>('getFirstAvailableBlock', [], { ...how, tenant, archive: true }),
      only,
    );
    if (asked.kind === 'answered' && Number.isSafeInteger(asked.value))
      first = { slot: asked.value, at: clock.monotonic() };
    else if (only !== undefined) return null;
    return first?.slot ?? null;
  }

  function learnFirstSlot(): void {
    if (isLearning || (first !== null && clock.monotonic() - first.at < FIRST_MS)) return;
    isLearning = true;
    void firstSlot(OWN_WORK).finally(() => {
      isLearning = false;
    });
  }

  /** The first slot of the upstream that gave this answer; null when it does not say. While none answers, what one said last. */
  async function startOf(asked: UpstreamAnswer<unknown>, tenant: Tenant): Promise<number | null> {
    if (asked.kind === 'silent') return first?.slot ?? null;
    if (asked.kind === 'refused' && asked.code === NO_HISTORY) return Number.MAX_SAFE_INTEGER;
    return await firstSlot(tenant, asked.by);
  }

  /** Whether the upstreams had all blocks from this slot on when they were asked lately. */
  const beginsBelow = (slot: number): boolean =>
    first !== null && clock.monotonic() - first.at < FIRST_MS && first.slot + FIRST_MOVES_SLOTS < slot;

  /** Slot of a transaction; null when no upstream has it, or none answers. */
  async function slotOf(signature: string, tenant: Tenant): Promise<number | null> {
    const config = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
    const asked = await ask(() =>
      chain.call<{ readonly slot?: unknown } | null>('getTransaction', [signature, config], { tenant, archive: true }),
    );
    const slot = asked.kind === 'answered' ? asked.value?.slot : undefined;
    return typeof slot === 'number' ? slot : null;
  }

  /**
   * Signatures of an address, newest first. `minSlot`: what the upstream must have reached; one that has not would leave out what is newer, without
   * a word. Rows up to `finalSlot` count as final, whatever the upstream says.
   */
  async function askSignatures({
    address,
    commitment,
    tenant,
    before,
    until,
    limit,
    minSlot,
    finalSlot,
  }: SignatureCall) {
    const config = {
      limit,
      commitment,
      ...(before === null ? {} : { before }),
      ...(until === null ? {} : { until }),
      ...(minSlot < 0 ? {} : { minContextSlot: minSlot }),
    };
    return await ask(async (how) =>
      listedOf(
        await chain.callText('getSignaturesForAddress', [address, config], { ...how, tenant, archive: true }),
        finalSlot,
      ),
    );
  }

  /** Errors: Contradiction, where the only upstream that is asked does not answer. */
  async function askSlots(from: number, to: number, { commitment, tenant, only }: SlotAsker) {
    const asked = await ask(async (how) => {
      const options = { ...how, tenant, archive: true };
      const slots = await chain.call<unknown>('getBlocks', [from, to, { commitment }], options);
      if (!Array.isArray(slots) || !slots.every((slot) => Number.isSafeInteger(slot)))
        throw new CodedError('CHAIN_BAD_RESPONSE', 'getBlocks: the answer is not a list of slots', { retryable: true });
      return slots as readonly number[];
    }, only);
    if (asked.kind === 'silent' && only !== undefined) throw new Contradiction();
    return asked;
  }

  return {
    ask,
    tip,
    tipNow,
    forgetTips,
    behindHeld,
    firstSlot,
    learnFirstSlot,
    startOf,
    beginsBelow,
    slotOf,
    askSignatures,
    askSlots,
  };
}

export const isUnknownSignature = (asked: UpstreamAnswer<unknown>, signature: string | null): boolean =>
  asked.kind === 'refused' &&
  asked.code === NOT_FOUND &&
  signature !== null &&
  asked.error instanceof Error &&
  asked.error.message.includes(signature);

const CONFIRMED = /("confirmationStatus":\s*)"confirmed"/;

/** The rows of an answer, as the node wrote them; a node that is behind learns which of them are final. Errors: CHAIN_BAD_RESPONSE. */
function listedOf(text: string, finalSlot: number): readonly ListedSignature[] {
  const bytes = Buffer.from(text);
  const items = arrayItems(bytes);
  if (items === null)
    throw new CodedError('CHAIN_BAD_RESPONSE', 'getSignaturesForAddress: the answer is not a list of signatures', {
      retryable: true,
    });
  return items.map(({ start, end }) => {
    const row = bytes.toString('utf8', start, end);
    const { signature, slot, err, blockTime } = JSON.parse(row) as Readonly<Record<string, unknown>>;
    if (typeof signature !== 'string' || !Number.isSafeInteger(slot))
      throw new CodedError('CHAIN_BAD_RESPONSE', 'getSignaturesForAddress: the answer contains a malformed entry', {
        retryable: true,
      });
    return {
      signature,
      slot: slot as number,
      hasFailed: (err ?? null) !== null,
      blockTime: typeof blockTime === 'number' ? blockTime : null,
      text: (slot as number) <= finalSlot ? row.replace(CONFIRMED, '$1"finalized"') : row,
    };
  });
}
