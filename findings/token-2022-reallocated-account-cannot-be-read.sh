#!/usr/bin/env bash
# @solana-program/token-2022 0.15.0, @solana/spl-token 0.4.15: a token account between Reallocate and the first use of
# its new room cannot be read.
#
# Expected: Reallocate makes room for an extension; until the extension is switched on, its bytes are zero, and zero
#   ends the list of extensions. The program reads it so, and so should its clients.
# Happens: token-2022 0.15.0 takes each pair of zero bytes as an extension "Uninitialized" without length. With room
#   for MemoTransfer or CpiGuard (5 bytes) one byte remains, and the whole account fails to decode: no owner, no mint,
#   no amount. With an even room it lists as many extensions that do not exist. spl-token 0.4.15 reads the amount, but
#   its readers of extensions throw a RangeError.
# Hurts: wallets and indexers. The owner can do this with any account, in a transaction of its own, and leave it so:
#   it counts and can pay, but a reader that decodes a page of accounts fails as a whole.
# Instead: decode the first 165 bytes alone (getTokenDecoder of @solana-program/token), walk the extensions yourself,
#   stop at type 0 or when fewer than 4 bytes are left.
#
# Needs node 20.18 or newer and npm. The account is made by the real program inside litesvm.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/chain" "$dir/readers"
cd "$dir/chain"
npm install --no-audit --no-fund --ignore-scripts --silent litesvm@1.5.0 @solana/kit@8.4.0 @solana-program/system@0.14.1 >&2
cd "$dir/readers"
npm install --no-audit --no-fund --ignore-scripts --silent \
  @solana-program/token-2022@0.15.0 @solana/kit@7.1.1 @solana/spl-token@0.4.15 @solana/web3.js@1.99.0 >&2

cat > "$dir/chain/run.mjs" <<'JS'
import { getCreateAccountInstruction } from '@solana-program/system';
import * as kit from '@solana/kit';
import { LiteSVM } from 'litesvm';

const PROGRAM = kit.address('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb');
const SYSTEM = kit.address('11111111111111111111111111111111');
const [INITIALIZE_MINT_2, INITIALIZE_ACCOUNT_3, MINT_TO, REALLOCATE, MEMO_TRANSFER] = [20, 18, 7, 29, 30];
const EXTENSIONS = { memoTransfer: 8, cpiGuard: 11, transferFeeAmount: 2 };
const ENABLE = 0;

const svm = new LiteSVM();
const signer = (byte) => kit.createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(byte));
const [owner, mint] = [await signer(1), await signer(2)];
svm.airdrop(owner.address, kit.lamports(10n ** 10n));
const key = (address) => kit.getAddressEncoder().encode(address);
const u64 = (value) => kit.getU64Encoder().encode(value);
const u16 = (value) => kit.getU16Encoder().encode(value);
const token = (data, accounts) => ({
  programAddress: PROGRAM,
  data: Uint8Array.from(data.flatMap((part) => (typeof part === 'number' ? [part] : [...part]))),
  accounts: accounts.map(([who, role]) => (who.address ? { address: who.address, role, signer: who } : { address: who, role })),
});
const { READONLY, WRITABLE, READONLY_SIGNER, WRITABLE_SIGNER } = kit.AccountRole;
const create = (account, space) =>
  getCreateAccountInstruction({
    payer: owner, newAccount: account, space, programAddress: PROGRAM, lamports: svm.minimumBalanceForRentExemption(space),
  });

async function send(instructions) {
  svm.expireBlockhash();
  const message = kit.pipe(
    kit.createTransactionMessage({ version: 0 }),
    (m) => kit.setTransactionMessageFeePayerSigner(owner, m),
    (m) => svm.setTransactionMessageLifetimeUsingLatestBlockhash(m),
    (m) => kit.appendTransactionMessageInstructions(instructions, m),
  );
  const result = svm.sendTransaction(await kit.signTransactionMessageWithSigners(message));
  if ('err' in result) throw new Error(result.toString());
}

await send([
  create(mint, 82n),
  token([INITIALIZE_MINT_2, 6, key(owner.address), 0], [[mint.address, WRITABLE]]),
]);

async function account(seed, room, after = []) {
  const one = await signer(seed);
  const reallocate = token([REALLOCATE, ...room.map(u16)], [
    [one.address, WRITABLE], [owner, WRITABLE_SIGNER], [SYSTEM, READONLY], [owner, READONLY_SIGNER],
  ]);
  await send([
    create(one, 165n),
    token([INITIALIZE_ACCOUNT_3, key(owner.address)], [[one.address, WRITABLE], [mint.address, READONLY]]),
    token([MINT_TO, u64(777n)], [[mint.address, WRITABLE], [one.address, WRITABLE], [owner, READONLY_SIGNER]]),
    reallocate,
    ...after.map((data) => token(data, [[one.address, WRITABLE], [owner, READONLY_SIGNER]])),
  ]);
  return Buffer.from(svm.getAccount(one.address).data).toString('base64');
}

const accounts = {
  memoRoom: await account(3, [EXTENSIONS.memoTransfer]),
  evenRoom: await account(4, [EXTENSIONS.memoTransfer, EXTENSIONS.cpiGuard, EXTENSIONS.transferFeeAmount]),
  memoOn: await account(5, [EXTENSIONS.memoTransfer], [[MEMO_TRANSFER, ENABLE]]),
};
console.log(JSON.stringify(accounts));
JS

cat > "$dir/readers/run.mjs" <<'JS'
import { readFileSync } from 'node:fs';
import { getTokenDecoder } from '@solana-program/token-2022';
import * as spl from '@solana/spl-token';
import web3 from '@solana/web3.js';

const accounts = JSON.parse(readFileSync('../accounts.json', 'utf8'));
const attempt = (f) => {
  try {
    return f();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};
const newer = (bytes) => {
  const { amount, extensions } = getTokenDecoder().decode(bytes);
  const names = (extensions.__option === 'Some' ? extensions.value : []).map((extension) => extension.__kind);
  return `amount ${amount}, ${names.length} extensions: ${names.slice(0, 3).join(' ')}`;
};
const older = (data) => {
  const address = web3.PublicKey.default;
  const unpacked = spl.unpackAccount(address, { data, owner: spl.TOKEN_2022_PROGRAM_ID }, spl.TOKEN_2022_PROGRAM_ID);
  return `amount ${unpacked.amount}, extensions ${attempt(() => spl.getExtensionTypes(unpacked.tlvData))}`;
};
const found = {};
for (const [name, base64] of Object.entries(accounts)) {
  const data = Buffer.from(base64, 'base64');
  found[name] = { newer: attempt(() => newer(data)), older: attempt(() => older(data)) };
  console.log(`${name}: ${data.length} bytes, end ${data.subarray(165).toString('hex')}`);
  console.log(`  token-2022 0.15.0: ${found[name].newer}`);
  console.log(`  spl-token 0.4.15:  ${found[name].older}`);
}
const same =
  found.memoRoom.newer.includes('expected 2 bytes, got 1') &&
  found.memoRoom.older.startsWith('amount 777, extensions RangeError') &&
  /amount 777, 1\d extensions: Uninitialized/.test(found.evenRoom.newer) &&
  found.memoOn.newer === 'amount 777, 1 extensions: MemoTransfer';
if (!same) {
  console.error('CHANGED');
  process.exit(1);
}
JS
cd "$dir/chain" && node run.mjs > "$dir/accounts.json"
cd "$dir/readers" && node run.mjs
