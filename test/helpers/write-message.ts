/** Writes wire messages, independently of the decoder under test. */
export interface WireMessage {
  readonly version: 'legacy' | number;
  readonly header: readonly [number, number, number];
  readonly keys: readonly Uint8Array[];
  readonly blockhash: Uint8Array;
  readonly instructions: readonly {
    readonly program: number;
    readonly accounts: Uint8Array;
    readonly data: Uint8Array;
  }[];
  readonly lookups: readonly {
    readonly table: Uint8Array;
    readonly writable: Uint8Array;
    readonly readonly: Uint8Array;
  }[];
}

/** A length as compact-u16. */
export function compactLength(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length);
  if (length < 0x4000) return Buffer.of((length & 0x7f) | 0x80, length >> 7);
  return Buffer.of((length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80, length >> 14);
}

function counted(bytes: Uint8Array): Buffer {
  return Buffer.concat([compactLength(bytes.length), bytes]);
}

export function writeMessage(message: WireMessage): Buffer {
  const instructions = message.instructions.map(({ program, accounts, data }) =>
    Buffer.concat([Buffer.of(program), counted(accounts), counted(data)]),
  );
  const parts: Uint8Array[] = [
    Buffer.from(message.header),
    compactLength(message.keys.length),
    ...message.keys,
    message.blockhash,
    compactLength(instructions.length),
    ...instructions,
  ];
  if (message.version === 'legacy') return Buffer.concat(parts);
  const lookups = message.lookups.map(({ table, writable, readonly }) =>
    Buffer.concat([table, counted(writable), counted(readonly)]),
  );
  return Buffer.concat([Buffer.of(0x80 | message.version), ...parts, compactLength(lookups.length), ...lookups]);
}
