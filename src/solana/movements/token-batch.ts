export interface BatchItem {
  readonly data: Uint8Array;
  readonly accounts: Uint8Array;
}

const BATCH = 255;

/**
 * The instructions inside a batch of a token program: for each, number of accounts, length of data, data; the accounts are those of
 * the batch, one after the other. Other instructions are themselves. What is cut off is left out.
 */
export function unbatch(data: Uint8Array, accounts: Uint8Array): readonly BatchItem[] {
  if (data[0] !== BATCH) return [{ data, accounts }];
  const items: BatchItem[] = [];
  let at = 1;
  let account = 0;
  while (at + 2 <= data.length) {
    const accountEnd = account + data[at]!;
    const dataEnd = at + 2 + data[at + 1]!;
    if (dataEnd > data.length || accountEnd > accounts.length) break;
    items.push({ data: data.subarray(at + 2, dataEnd), accounts: accounts.subarray(account, accountEnd) });
    account = accountEnd;
    at = dataEnd;
  }
  return items;
}
