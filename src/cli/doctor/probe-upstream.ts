import { makeMember, openSocket } from '../../adapters/chain/rpc/member.ts';
import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/plain-object.ts';
import type { Clock } from '../../ports/clock.ts';
import type { UpstreamConfig } from '../../ports/upstream.ts';
import { type AskUpstream, createAskUpstream } from './ask-upstream.ts';

/** What one upstream says of itself. */
export interface UpstreamFacts {
  readonly genesisHash: string;
  readonly version: string;
  /** Null when it calls itself healthy. */
  readonly trouble: string | null;
  readonly slot: number;
  /** Lowest slot with a block; null when it does not say. */
  readonly firstSlot: number | null;
  /** A recent block. */
  readonly block: { readonly slot: number; readonly timeMs: number | null } | null;
  /** Why there is none. */
  readonly blockTrouble: string | null;
  readonly hasSocket: boolean;
  /** Unix milliseconds at which `slot` was told. */
  readonly askedAtMs: number;
}

const RECENT_SLOTS = 50;

/** Asks everything the daemon depends on. Errors: those of the first calls, without which nothing else makes sense. */
export async function probeUpstream(
  label: string,
  config: UpstreamConfig,
  options: { readonly clock: Clock; readonly transactionVersion: number },
): Promise<UpstreamFacts> {
  const upstream = createAskUpstream(label, config, options.clock);
  try {
    const genesisHash = text(await upstream.ask('getGenesisHash'), 'getGenesisHash');
    const slot = integer(await upstream.ask('getSlot', [{ commitment: 'confirmed' }]), 'getSlot');
    const askedAtMs = options.clock.now();
    const [version, trouble, firstSlot, recent, hasSocket] = await Promise.all([
      upstream.ask('getVersion').then(versionIn, () => 'unknown'),
      upstream.ask('getHealth').then(() => null, inWords),
      upstream.ask('getFirstAvailableBlock').then(
        (found) => integer(found, ''),
        () => null,
      ),
      recentBlock(upstream, slot, options.transactionVersion),
      opensSocket(config, options.clock),
    ]);
    return { genesisHash, version, trouble, slot, firstSlot, ...recent, hasSocket, askedAtMs };
  } finally {
    await upstream.close();
  }
}

async function recentBlock(
  { ask }: AskUpstream,
  slot: number,
  maxSupportedTransactionVersion: number,
): Promise<Pick<UpstreamFacts, 'block' | 'blockTrouble'>> {
  const commitment = { commitment: 'confirmed' };
  try {
    const slots = await ask('getBlocks', [Math.max(0, slot - RECENT_SLOTS), slot, commitment]);
    const last = Array.isArray(slots) ? slots.at(-1) : undefined;
    if (!Number.isInteger(last)) return { block: null, blockTrouble: `getBlocks lists none of ${RECENT_SLOTS} slots` };
    const what = { ...commitment, transactionDetails: 'none', rewards: false, maxSupportedTransactionVersion };
    const block = await ask('getBlock', [last, what]);
    const seconds = isPlainObject(block) ? block['blockTime'] : undefined;
    if (!isPlainObject(block)) return { block: null, blockTrouble: 'getBlock has no block that getBlocks lists' };
    const timeMs = typeof seconds === 'number' ? seconds * 1_000 : null;
    return { block: { slot: last as number, timeMs }, blockTrouble: null };
  } catch (error) {
    return { block: null, blockTrouble: inWords(error) };
  }
}

/** Tries the same addresses as the daemon. */
async function opensSocket(config: UpstreamConfig, clock: Clock): Promise<boolean> {
  const member = makeMember(config, 0, { label: 'doctor', clock });
  try {
    for (const _ of member.socketUrls) {
      const socket = openSocket(member, 'doctor');
      const opened = await new Promise<boolean>((resolve) => {
        socket.on('error', () => resolve(false));
        socket.once('open', () => resolve(true));
      });
      socket.terminate();
      if (opened) return true;
    }
    return false;
  } finally {
    await member.transport.close();
  }
}

function inWords(error: unknown): string {
  return error instanceof CodedError ? messageOf(error) : (codeOf(error) ?? 'error');
}

function versionIn(result: unknown): string {
  const version = isPlainObject(result) ? result['solana-core'] : undefined;
  return typeof version === 'string' ? version.slice(0, 32) : 'unknown';
}

function integer(result: unknown, method: string): number {
  if (typeof result === 'number' && Number.isInteger(result)) return result;
  throw new CodedError('CHAIN_BAD_RESPONSE', `${method} answers no slot`);
}

function text(result: unknown, method: string): string {
  if (typeof result === 'string') return result;
  throw new CodedError('CHAIN_BAD_RESPONSE', `${method} answers no text`);
}
