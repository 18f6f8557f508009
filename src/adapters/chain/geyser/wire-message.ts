import type { StreamMessage } from './updates.ts';

/** The bytes of a transaction as its signers signed it: legacy, or version 0. */
export function wireOf(signatures: readonly Uint8Array[], message: StreamMessage): Buffer {
  const parts: Uint8Array[] = [compact(signatures.length), ...signatures];
  if (message.versioned) parts.push(Buffer.of(0x80));
  const { header, accountKeys, instructions, addressTableLookups } = message;
  parts.push(
    Buffer.of(
      header?.numRequiredSignatures ?? 0,
      header?.numReadonlySignedAccounts ?? 0,
      header?.numReadonlyUnsignedAccounts ?? 0,
    ),
    compact(accountKeys.length),
    ...accountKeys,
    message.recentBlockhash,
    compact(instructions.length),
  );
  for (const { programIdIndex, accounts, data } of instructions)
    parts.push(Buffer.of(programIdIndex), compact(accounts.length), accounts, compact(data.length), data);
  if (message.versioned) {
    parts.push(compact(addressTableLookups.length));
    for (const { accountKey, writableIndexes, readonlyIndexes } of addressTableLookups)
      parts.push(
        ...[accountKey, compact(writableIndexes.length), writableIndexes],
        ...[compact(readonlyIndexes.length), readonlyIndexes],
      );
  }
  return Buffer.concat(parts);
}

/** A length as the wire has it: seven bits a byte, the low ones first. */
function compact(length: number): Buffer {
  const bytes: number[] = [];
  let rest = length;
  for (; rest > 0x7f; rest >>= 7) bytes.push((rest & 0x7f) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}
