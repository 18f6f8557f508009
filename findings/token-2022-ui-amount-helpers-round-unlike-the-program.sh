#!/usr/bin/env bash
# @solana-program/token-2022 0.15.0 and @solana/spl-token 0.4.15: displayed amounts that differ from the program's,
# each in another kind of mint.
#
# Expected: two official packages calculate what the program's AmountToUiAmount answers, without asking a node
#   ("WithoutSimulation").
# Happens: the program cuts a scaled amount to whole raw units, and rounds an amount with interest. token-2022 0.15.0
#   rounds both, so it shows too much of a scaled mint: 1 raw unit times 1.5 is 2 there and 1 on chain. spl-token
#   0.4.15 cuts both, so it shows too little of a mint with interest, and it prints small amounts as 1e-9 and large
#   ones without their last digits. No package is right for both kinds.
# Hurts: wallets, explorers and books that compare with the node: uiAmountString of the RPC is the program's. The
#   error is one raw unit, which for a mint without decimals is a whole token.
# Instead: take token-2022 for interest, cut (Math.trunc of raw amount times multiplier) before the division for
#   scaled amounts, or take uiAmountString of the node. Never calculate back from a displayed amount.
#
# Needs node 20.18 or newer and npm. The program's answers come from the real program inside litesvm.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/chain" "$dir/helpers"
cd "$dir/chain"
npm install --no-audit --no-fund --ignore-scripts --silent litesvm@1.5.0 @solana/kit@8.4.0 @solana-program/system@0.14.1 >&2
cd "$dir/helpers"
npm install --no-audit --no-fund --ignore-scripts --silent \
  @solana-program/token-2022@0.15.0 @solana/kit@7.1.1 @solana/spl-token@0.4.15 @solana/web3.js@1.99.0 >&2

cat > "$dir/chain/run.mjs" <<'JS'
import { getCreateAccountInstruction } from '@solana-program/system';
import * as kit from '@solana/kit';
import { LiteSVM } from 'litesvm';

const PROGRAM = kit.address('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb');
const [INITIALIZE_MINT_2, AMOUNT_TO_UI_AMOUNT, INTEREST, SCALED] = [20, 23, 33, 43];
const START_S = 1_760_000_000;
const LATER_S = START_S + 400 * 86_400;

const svm = new LiteSVM();
const signer = (byte) => kit.createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(byte));
const payer = await signer(1);
svm.airdrop(payer.address, kit.lamports(10n ** 10n));
const key = [...kit.getAddressEncoder().encode(payer.address)];
const { READONLY, WRITABLE } = kit.AccountRole;
const token = (data, mint, role) => ({
  programAddress: PROGRAM, data: Uint8Array.from(data), accounts: [{ address: mint, role }],
});
function setTime(seconds) {
  const clock = svm.getClock();
  clock.unixTimestamp = BigInt(seconds);
  svm.setClock(clock);
}
async function transaction(instructions) {
  svm.expireBlockhash();
  const message = kit.pipe(
    kit.createTransactionMessage({ version: 0 }),
    (m) => kit.setTransactionMessageFeePayerSigner(payer, m),
    (m) => svm.setTransactionMessageLifetimeUsingLatestBlockhash(m),
    (m) => kit.appendTransactionMessageInstructions(instructions, m),
  );
  return kit.signTransactionMessageWithSigners(message);
}
async function createMint(seed, decimals, space, extension) {
  const mint = await signer(seed);
  const result = svm.sendTransaction(
    await transaction([
      getCreateAccountInstruction({
        payer, newAccount: mint, space, programAddress: PROGRAM, lamports: svm.minimumBalanceForRentExemption(space),
      }),
      token(extension, mint.address, WRITABLE),
      token([INITIALIZE_MINT_2, decimals, ...key, 0], mint.address, WRITABLE),
    ]),
  );
  if ('err' in result) throw new Error(result.toString());
  return mint.address;
}
async function uiAmount(mint, raw) {
  const data = [AMOUNT_TO_UI_AMOUNT, ...kit.getU64Encoder().encode(raw)];
  const result = svm.simulateTransaction(await transaction([token(data, mint, READONLY)]));
  return new TextDecoder().decode(result.meta().returnData().data());
}

const RAW = [1n, 3n, 7n, 10n, 99n, 100n, 101n, 999n, 123_456_789n, 1_000_000_007n, 12_345_678_901_234_567n, 2n ** 64n - 1n];
const mints = [
  { kind: 'scaled', decimals: 0, factor: 1.5 },
  { kind: 'scaled', decimals: 6, factor: 1.1 },
  { kind: 'interest', decimals: 0, factor: 10_000 },
  { kind: 'interest', decimals: 9, factor: 500 },
];
const rows = [];
for (const [index, { kind, decimals, factor }] of mints.entries()) {
  setTime(START_S);
  const mint =
    kind === 'scaled'
      ? await createMint(10 + index, decimals, 226n, [SCALED, 0, ...key, ...kit.getF64Encoder().encode(factor)])
      : await createMint(10 + index, decimals, 222n, [INTEREST, 0, ...key, ...kit.getI16Encoder().encode(factor)]);
  setTime(LATER_S);
  for (const raw of RAW) rows.push({ kind, decimals, factor, raw: String(raw), program: await uiAmount(mint, raw) });
}
console.log(JSON.stringify({ START_S, LATER_S, rows }));
JS

cat > "$dir/helpers/run.mjs" <<'JS'
import { readFileSync } from 'node:fs';
import * as newer from '@solana-program/token-2022';
import * as older from '@solana/spl-token';

const { START_S, LATER_S, rows } = JSON.parse(readFileSync('../rows.json', 'utf8'));
function helper(library, { kind, decimals, factor, raw }) {
  return kind === 'scaled'
    ? library.amountToUiAmountForScaledUiAmountMintWithoutSimulation(BigInt(raw), decimals, factor)
    : library.amountToUiAmountForInterestBearingMintWithoutSimulation(BigInt(raw), decimals, LATER_S, START_S, START_S, factor, factor);
}
const wrong = {};
const count = (name) => {
  wrong[name] = (wrong[name] ?? 0) + 1;
};
for (const kind of ['scaled', 'interest']) {
  console.log(`${kind} (raw amount, decimals, multiplier or rate): program | token-2022 0.15.0 | spl-token 0.4.15`);
  for (const row of rows.filter((one) => one.kind === kind)) {
    const [a, b] = [helper(newer, row), helper(older, row)];
    if (a !== row.program) count(`token-2022 ${kind}`);
    if (b !== row.program) count(`spl-token ${kind}`);
    if (b !== row.program && !b.includes('e') && row.raw.length < 15) count(`spl-token ${kind}, cut`);
    if (a !== row.program || b !== row.program) {
      console.log(`  ${row.raw}, ${row.decimals}, ${row.factor}: ${row.program} | ${a} | ${b}`);
    }
  }
}
console.log('values that differ from the program:', wrong);
const same = wrong['token-2022 scaled'] > 0 && !wrong['token-2022 interest'] && wrong['spl-token interest, cut'] > 0 && !wrong['spl-token scaled, cut'];
if (!same) {
  console.error('CHANGED');
  process.exit(1);
}
JS
cd "$dir/chain" && node run.mjs > "$dir/rows.json"
cd "$dir/helpers" && node run.mjs
