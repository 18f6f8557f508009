import { CodedError, messageOf } from '../../lib/coded-error.ts';

export type Native = typeof import('litesvm/dist/internal.js');

/** Every method that the guard calls: the entry is no documented API, so a changed release must fail at start and not later. */
const METHODS = [
  'setSigverify',
  'setBlockhashCheck',
  'setTransactionHistory',
  'minimumBalanceForRentExemption',
  'getAccount',
  'getProgramAccounts',
  'setAccount',
  'getBalance',
  'addProgram',
  'sendVersionedTransaction',
  'simulateVersionedTransaction',
  'expireBlockhash',
  'setClock',
  'setSlotHashes',
  'withNativeMints',
] as const;

/** Loads the native engine. Throws LOCAL_ENGINE_MISSING (exit 78) where it is absent, does not load or lacks a method. */
export async function loadNative(): Promise<Native> {
  let native: Native;
  try {
    native = await import('litesvm/dist/internal.js');
  } catch (error) {
    throw missing(messageOf(error), error);
  }
  const prototype = native.LiteSvm?.prototype as unknown as Record<string, unknown> | undefined;
  const absent = METHODS.filter((name) => typeof prototype?.[name] !== 'function');
  if (absent.length > 0 || typeof native.Account !== 'function' || typeof native.Clock !== 'function') {
    throw missing(`this release lacks ${absent.join(', ') || 'Account or Clock'}`);
  }
  return native;
}

function missing(reason: string, cause?: unknown): CodedError {
  return new CodedError(
    'LOCAL_ENGINE_MISSING',
    `the local chain needs the optional package litesvm 1.5.0, which could not be loaded (${reason}). Install litesvm@1.5.0, or name a real node: SOLANA_RPC_URL=... or upstream.urls`,
    { cause, exitCode: 78 },
  );
}
