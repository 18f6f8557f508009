import assert from 'node:assert/strict';
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { decode32, encode32 } from '../lib/base58.ts';
import { askName, type NameAccount, type NameAnswer, nameMint, resolveName as resolveBytes } from './names.ts';
import { NAME_PROGRAM, NAME_ROOT, TOKENIZER_PROGRAM } from './programs.ts';

interface Signer {
  readonly key: Uint8Array;
  sign(message: Uint8Array): Uint8Array;
}

function makeSigner(): Signer {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const der = publicKey.export({ format: 'der', type: 'spki' });
  return { key: new Uint8Array(der.subarray(-32)), sign: (message) => sign(null, message, privateKey) };
}

const registry = (owner: Uint8Array, content: Uint8Array = new Uint8Array(0)): NameAccount => ({
  owner: NAME_PROGRAM,
  data: Buffer.concat([decode32(NAME_ROOT) as Uint8Array, owner, new Uint8Array(32), content]),
});

const recordV2 = (signer: Uint8Array, roa: Uint8Array, content: Uint8Array, kinds: [number, number] = [1, 1]) => {
  const header = Buffer.alloc(8);
  header.writeUInt16LE(kinds[0], 0);
  header.writeUInt16LE(kinds[1], 2);
  header.writeUInt32LE(content.length, 4);
  const idBytes = [0, 32, 20, 32];
  const ids = [signer.subarray(0, idBytes[kinds[0]]), roa.subarray(0, idBytes[kinds[1]])];
  return registry(new Uint8Array(32), Buffer.concat([header, ...ids, content]));
};

const recordV1 = (signer: Signer, record: Uint8Array, address: Uint8Array) => {
  const message = Buffer.from(Buffer.concat([address, record]).toString('hex'), 'ascii');
  return registry(new Uint8Array(32), Buffer.concat([address, signer.sign(message)]));
};

const nftRecord = (domain: Uint8Array, mint: Uint8Array, tag = 2): NameAccount => ({
  owner: TOKENIZER_PROGRAM,
  data: Buffer.concat([Uint8Array.of(tag, 255), domain, randomBytes(32), mint]),
});

const question = askName(['wallet-guide-3']);
const [, , , v1Key] = question.keys;
const strict = { allowPda: false };

/** The answer as text, for comparison. */
const shown = (answer: NameAnswer) => {
  if (answer.kind === 'address') return { kind: answer.kind, address: encode32(answer.address) };
  return answer.kind === 'holder' ? { kind: answer.kind, mint: encode32(answer.mint) } : answer;
};
const resolveName = (...given: Parameters<typeof resolveBytes>) => shown(resolveBytes(...given));
const address = (bytes: Uint8Array) => ({ kind: 'address', address: encode32(bytes) });
/** Not a point of the curve. */
const programOwned = nameMint(question.domain);

test('a missing name, or an account of another program, does not resolve', () => {
  assert.equal(resolveName(question, [null, null, null, null], strict).kind, 'unresolved');
  const foreign = { ...registry(makeSigner().key), owner: TOKENIZER_PROGRAM };
  assert.equal(resolveName(question, [foreign, null, null, null], strict).kind, 'unresolved');
  const short = { owner: NAME_PROGRAM, data: new Uint8Array(95) };
  assert.equal(resolveName(question, [short, null, null, null], strict).kind, 'unresolved');
});

test('without records a name resolves to its owner, unless a program owns it', () => {
  const owner = makeSigner().key;
  assert.deepEqual(resolveName(question, [registry(owner), null, null, null], strict), address(owner));
  const owned = [registry(programOwned), null, null, null];
  assert.equal(resolveName(question, owned, strict).kind, 'unresolved');
  assert.deepEqual(resolveName(question, owned, { allowPda: true }), address(programOwned));
  assert.equal(resolveName(question, [registry(new Uint8Array(32)), null, null, null], strict).kind, 'unresolved');
});

test('a tokenized name resolves to the holder, whatever is recorded', () => {
  const { key } = makeSigner();
  const mint = nameMint(question.domain);
  const records = [recordV2(key, key, key), null] as const;
  assert.deepEqual(
    resolveName(question, [registry(programOwned), nftRecord(question.domain, mint), ...records], strict),
    {
      kind: 'holder',
      mint: encode32(mint),
    },
  );
  // A name that was tokenized earlier, one of another name, and one with a forged mint.
  const own = registry(key);
  const inactive = resolveName(question, [own, nftRecord(question.domain, mint, 3), null, null], strict);
  assert.equal(inactive.kind, 'address');
  const other = resolveName(question, [own, nftRecord(askName(['other']).domain, mint), null, null], strict);
  assert.equal(other.kind, 'address');
  const forged = resolveName(question, [own, nftRecord(question.domain, randomBytes(32)), null, null], strict);
  assert.equal(forged.kind, 'unresolved');
});

test('a record is valid while its signer owns the name', () => {
  const [owner, former] = [makeSigner(), makeSigner()];
  const target = randomBytes(32);
  const own = registry(owner.key);
  const resolve = (v2: NameAccount | null, v1: NameAccount | null) =>
    resolveName(question, [own, null, v2, v1], strict);
  assert.deepEqual(resolve(recordV2(owner.key, target, target), null), address(target));
  // Stale: the owner who signed it has changed.
  assert.deepEqual(resolve(recordV2(former.key, target, target), null), address(owner.key));
  const signed = recordV1(owner, v1Key, target);
  assert.deepEqual(resolve(recordV2(former.key, owner.key, owner.key), signed), address(target));
  assert.deepEqual(resolve(null, signed), address(target));
  assert.deepEqual(resolve(null, recordV1(former, v1Key, target)), address(owner.key));
  // Signed for another record.
  assert.deepEqual(resolve(null, recordV1(owner, randomBytes(32), target)), address(owner.key));
});

test('a record that cannot be trusted is no reason to answer something else', () => {
  const { key } = makeSigner();
  const own = registry(key);
  const target = randomBytes(32);
  const untrusted = [
    recordV2(key, randomBytes(32), target),
    recordV2(key, target, target, [1, 3]),
    recordV2(key, target, target, [2, 1]),
    recordV2(key, target, target, [0, 0]),
    recordV2(key, target, randomBytes(31)),
    registry(new Uint8Array(32), new Uint8Array(5)),
  ];
  for (const v2 of untrusted) assert.equal(resolveName(question, [own, null, v2, null], strict).kind, 'unresolved');
});

test('arbitrary bytes never throw, and only bytes of the chain are returned', () => {
  const bytes = fc.uint8Array({ maxLength: 300 });
  const account = fc.option(
    fc.record({ owner: fc.constantFrom(NAME_PROGRAM, TOKENIZER_PROGRAM, 'other'), data: bytes }),
    { nil: null },
  );
  fc.assert(
    fc.property(fc.tuple(account, account, account, account), (accounts) => {
      const answer = resolveBytes(question, accounts, strict);
      if (answer.kind !== 'address') return;
      const text = Buffer.from(answer.address).toString('hex');
      assert.ok(accounts.some((one) => one !== null && Buffer.from(one.data).toString('hex').includes(text)));
    }),
    { numRuns: 300 },
  );
});
