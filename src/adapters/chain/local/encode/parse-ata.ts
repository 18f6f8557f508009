const TYPES = ['create', 'createIdempotent', 'recoverNested'];

/** Associated token accounts: the first byte is the kind, no data at all means `create`. */
export function parseAta(data: Uint8Array, accounts: readonly string[]) {
  const type = TYPES[data[0] ?? 0];
  if (type === undefined || accounts.length < 6) return null;
  if (type === 'recoverNested') {
    const [nestedSource, nestedMint, destination, nestedOwner, ownerMint, wallet, tokenProgram] = accounts;
    return { type, info: { nestedSource, nestedMint, destination, nestedOwner, ownerMint, wallet, tokenProgram } };
  }
  const [source, account, wallet, mint, systemProgram, tokenProgram] = accounts;
  return { type, info: { source, account, wallet, mint, systemProgram, tokenProgram } };
}
