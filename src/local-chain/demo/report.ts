/** What the demo left on the chain, for the lines that the banner shows. */
export interface DemoReport {
  /** Name -> address. */
  readonly wallets: Readonly<Record<string, string>>;
  /** Mint of the SPL token. */
  readonly mint: string;
  /** Token-2022 mint with its metadata on chain. */
  readonly metadataMint: string;
  /** Mint of the NFT whose metadata account is a fixture. */
  readonly nftMint: string;
}
