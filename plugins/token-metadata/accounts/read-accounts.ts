import { CodedError, messageOf } from '../../../src/lib/coded-error.ts';
import type { ChainReader } from '../../../src/ports/chain.ts';
import type { ChainAccount, ReadAccounts } from './chain-account.ts';

/** The most that nodes answer in one call. */
export const ACCOUNTS_PER_CALL = 100;

/** Both are commonly above 2^53. In an answer of encoded accounts no text can hold these members, so the digits may be quoted. */
const LARGE_NUMBERS = /"(rentEpoch|lamports)"\s*:\s*(\d+)/g;

interface AnsweredAccount {
  readonly owner: string;
  readonly lamports: string;
  readonly rentEpoch: string;
  readonly executable: boolean;
  readonly data: readonly [string, string];
}

/** Reads up to 100 accounts in one call. Errors: those of `ChainReader.callText`. */
export async function readAccounts(
  chain: ChainReader,
  keys: readonly string[],
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<ReadAccounts> {
  const options = { timeoutMs, ...(signal === undefined ? {} : { signal }) };
  const params = [keys, { encoding: 'base64', commitment: 'confirmed' }];
  const text = await chain.callText('getMultipleAccounts', params, options);
  try {
    return parse(text, keys.length);
  } catch (cause) {
    throw new CodedError('CHAIN_BAD_RESPONSE', `the answer is no list of accounts: ${messageOf(cause)}`, {
      cause,
      retryable: true,
    });
  }
}

function parse(text: string, count: number): ReadAccounts {
  const answer = JSON.parse(text.replace(LARGE_NUMBERS, '"$1":"$2"')) as {
    readonly context: { readonly slot: number };
    readonly value: readonly (AnsweredAccount | null)[];
  };
  if (!Number.isSafeInteger(answer.context.slot)) throw new TypeError('it names no slot');
  if (answer.value.length !== count) throw new TypeError(`${answer.value.length} accounts for ${count} keys`);
  return { slot: answer.context.slot, accounts: answer.value.map((account) => account && accountOf(account)) };
}

function accountOf({ owner, lamports, rentEpoch, executable, data }: AnsweredAccount): ChainAccount {
  if (typeof owner !== 'string' || data[1] !== 'base64') throw new TypeError('an account is not as it was asked for');
  return {
    owner,
    lamports: BigInt(lamports),
    data: Buffer.from(data[0], 'base64'),
    executable: executable === true,
    // Some nodes leave it out.
    rentEpoch: BigInt(rentEpoch ?? 0),
  };
}
