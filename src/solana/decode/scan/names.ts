import { NameList } from './name-list.ts';

/** The member names that a scan looks for; the last ones of a list are only named because they are common. */
export function createNames() {
  return {
    answer: new NameList(['result', 'error', 'jsonrpc', 'id']),
    entry: new NameList(['transaction', 'meta', 'version']),
    meta: new NameList([
      ...['err', 'fee', 'preBalances', 'postBalances', 'innerInstructions', 'logMessages'],
      ...['preTokenBalances', 'postTokenBalances', 'loadedAddresses'],
      ...['status', 'rewards', 'computeUnitsConsumed', 'costUnits', 'returnData'],
    ]),
    loaded: new NameList(['writable', 'readonly']),
    group: new NameList(['index', 'instructions']),
    instruction: new NameList(['programIdIndex', 'accounts', 'data', 'stackHeight']),
    balance: new NameList(['accountIndex', 'mint', 'uiTokenAmount', 'programId', 'owner']),
    amount: new NameList(['amount', 'decimals', 'uiAmount', 'uiAmountString']),
  };
}

export type Names = ReturnType<typeof createNames>;
