/** Consecutive address texts in `ScannedBlock.texts`: number of the first one, and how many. */
export interface TextRange {
  readonly at: number;
  readonly count: number;
}

/** Where the parts of one transaction lie in the bytes of the answer. */
export interface ScannedEntry {
  /** The base64 text between its quotes. */
  readonly wireFrom: number;
  readonly wireTo: number;
  readonly meta: ScannedMeta;
}

export interface ScannedMeta {
  readonly from: number;
  readonly to: number;
  /** Whether `err` is anything but null. */
  readonly hasError: boolean;
  /** Numbers of elements. */
  readonly preBalances: number;
  readonly postBalances: number;
  /** Largest number of an account in token balances and inner instructions, -1 for none. */
  readonly largestIndex: number;
  /** Largest number of an outer instruction that inner ones belong to, -1 for none. */
  readonly largestGroup: number;
  readonly writable: TextRange;
  readonly readonly: TextRange;
  /** Three texts for each token balance: mint, program, owner. */
  readonly preTokens: TextRange;
  readonly postTokens: TextRange;
}

/** What a scan noted of a `getBlock` answer. Nothing but the header is a value yet. */
export class ScannedBlock {
  /** The whole answer. */
  readonly body: Buffer;
  /** The members of the block but for its transactions. */
  readonly header: Readonly<Record<string, unknown>>;
  readonly entries: readonly ScannedEntry[];
  /** Start and length of each address text; a length of 0 where the member is missing, null or empty. */
  readonly texts: readonly number[];

  constructor(
    body: Buffer,
    header: Record<string, unknown>,
    entries: readonly ScannedEntry[],
    texts: readonly number[],
  ) {
    this.body = body;
    this.header = header;
    this.entries = entries;
    this.texts = texts;
  }
}
