/** `main`, or `devnet` for the second chain. */
export type ChainId = 'main' | 'devnet';
