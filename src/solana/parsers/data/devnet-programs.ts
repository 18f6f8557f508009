/** Addresses on devnet of programs that have another one on the main chain. */
export const DEVNET = {
  OPENBOOK: 'EoTcMgcDRTJVZDMZWBoU6rhYHZfkNTVEAfz3uUJRcYGj',
  RAYDIUM_CLMM: 'DRayAUgENGQBKVaX8owNhgzkEDyoHTGVEGHVJT1E9pfH',
  RAYDIUM_CPMM: 'DRaycpLY18LhpbydsBWbVJtxpNv9oXPgjRSfpF2bWpYb',
  RAYDIUM_LIQUIDITY_POOL_V4: 'DRaya7Kj3aMWQSy19kSjvmuwq9docCHofyP9kanQGaav',
} as const;
