#!/usr/bin/env bash
# @solana-program/compute-budget 0.18.1: its helpers accept version 1 messages and append instructions that do nothing
# there.
#
# Expected: with @solana/kit 8, a helper that is typed for every message sets the limit of every message, or does not
#   compile.
# Happens: in version 1 (SIMD-0385) limits stand in the header, and ComputeBudget instructions are void. The helpers
#   of this package know only the instruction: the header's mask stays 0, so the compute limit is zero. The types
#   allow it. kit has a function of its own, setTransactionMessageComputeUnitLimit, that sets the header, and a
#   setTransactionMessageComputeUnitPrice with the same name as the one here that refuses version 1 by type. The
#   import decides.
# Hurts: senders that change `version: 0` to `version: 1` and keep their helpers. The transaction lands, fails, pays,
#   has no priority, and is longer by the instructions.
# Instead: with kit 8 import the setters from @solana/kit alone; for version 1 set compute units, loaded data and a
#   priority fee in lamports, and check getTransactionMessageComputeUnitLimit before signing.
#
# Needs node 20.18 or newer and npm.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --ignore-scripts --silent \
  @solana/kit@8.4.0 @solana-program/compute-budget@0.18.1 typescript@5.9.3 >&2

cat > run.mjs <<'JS'
import * as budget from '@solana-program/compute-budget';
import * as kit from '@solana/kit';

const payer = await kit.createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(7));
const message = kit.pipe(
  kit.createTransactionMessage({ version: 1 }),
  (m) => kit.setTransactionMessageFeePayerSigner(payer, m),
  (m) => kit.setTransactionMessageLifetimeUsingBlockhash({ blockhash: payer.address, lastValidBlockHeight: 1n }, m),
);
const cases = [
  ['compute-budget fillProvisorySetComputeUnitLimitInstruction', budget.fillProvisorySetComputeUnitLimitInstruction(message)],
  ['compute-budget updateOrAppendSetComputeUnitLimitInstruction', budget.updateOrAppendSetComputeUnitLimitInstruction(5000, message)],
  ['compute-budget setTransactionMessageComputeUnitPrice', budget.setTransactionMessageComputeUnitPrice(1000n, message)],
  ['kit setTransactionMessageComputeUnitLimit', kit.setTransactionMessageComputeUnitLimit(5000, message)],
];
console.log('@solana-program/compute-budget 0.18.1 with @solana/kit 8.4.0, version 1');
const found = cases.map(([name, changed]) => {
  const { configMask } = kit.compileTransactionMessage(changed);
  const limit = kit.getTransactionMessageComputeUnitLimit(changed);
  console.log(`  ${name}: instructions ${changed.instructions.length}, config mask ${configMask}, limit ${limit}`);
  return `${changed.instructions.length}/${configMask !== 0}`;
});
if (found.join() !== '1/false,1/false,1/false,0/true') {
  console.error('CHANGED');
  process.exit(1);
}
JS
node run.mjs

cat > types.ts <<'TS'
import * as budget from '@solana-program/compute-budget';
import * as kit from '@solana/kit';
declare const payer: kit.TransactionSigner;
const message = kit.setTransactionMessageFeePayerSigner(payer, kit.createTransactionMessage({ version: 1 }));
budget.updateOrAppendSetComputeUnitLimitInstruction(5000, message);
budget.setTransactionMessageComputeUnitPrice(1000n, message);
// @ts-expect-error kit refuses its own function of this name
kit.setTransactionMessageComputeUnitPrice(1000n as kit.MicroLamports, message);
TS
npx --no-install tsc --noEmit --strict --module nodenext --target es2022 --skipLibCheck types.ts
echo '  the helpers compile for version 1; the function of kit with the same name does not'
