import { codeOf } from '../../../src/kernel/plugin.ts';
import { RequestError } from '../../../src/kernel/request.ts';

/** What the upstream refuses is no answer of ours: nothing is known then. Other errors have words of their own. */
export async function refusedAs503<T>(method: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    throw new RequestError(503, `Service unavailable: the Solana upstream refused ${method}`, { cause: error });
  }
}
