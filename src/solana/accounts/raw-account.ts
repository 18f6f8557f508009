/** An account as the chain keeps it. */
export interface RawAccount {
  /** The program that it belongs to, base58. */
  readonly owner: string;
  readonly lamports: bigint;
  readonly data: Uint8Array;
}
