import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  AccountLayout,
  AccountType,
  amountToUiAmountForInterestBearingMintWithoutSimulation,
  amountToUiAmountForScaledUiAmountMintWithoutSimulation,
  calculateEpochFee,
  ExtensionType,
  getAssociatedTokenAddressSync,
  getExtensionTypes,
  MintLayout,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
  unpackAccount,
  unpackMint,
} from '@solana/spl-token';
import { PublicKey } from '@solana/web3.js';
import fc from 'fast-check';
import { encode32 } from '../../lib/base58.ts';
import { associatedTokenAccount, editionAddress, metadataAddress, tokenRecordAddress } from '../addresses.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../programs.ts';
import { plainAmount, transferFee, uiAmount } from './amounts.ts';
import { decodeMint, decodeTokenAccount } from './token.ts';

const key = fc.uint8Array({ minLength: 32, maxLength: 32 });
const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const program = fc.constantFrom(TOKEN_PROGRAM, TOKEN_2022_PROGRAM);
const programId = (text: string) => (text === TOKEN_PROGRAM ? TOKEN_PROGRAM_ID : TOKEN_2022_PROGRAM_ID);
const name = (bytes: Uint8Array | null) => (bytes === null ? null : encode32(bytes));
const anywhere = new PublicKey(new Uint8Array(32));

/** Extensions of random types and lengths, as in an account. */
const extensions = fc.array(
  fc.record({ type: fc.integer({ min: 1, max: 40 }), value: fc.uint8Array({ maxLength: 80 }) }),
  { maxLength: 6 },
);

function withExtensions(
  base: Buffer,
  type: AccountType,
  given: readonly { readonly type: number; readonly value: Uint8Array }[],
): Buffer {
  const parts = given.map((extension) => {
    const head = Buffer.alloc(4);
    head.writeUInt16LE(extension.type);
    head.writeUInt16LE(extension.value.length, 2);
    return Buffer.concat([head, extension.value]);
  });
  const data = Buffer.concat([base, Buffer.alloc(165 - base.length), Buffer.of(type), ...parts]);
  // Both programs read 355 bytes as a multisig account.
  return data.length === 355 ? Buffer.concat([data, Buffer.alloc(1)]) : data;
}

test('mints match the published client', () => {
  const mint = fc.record({
    program,
    authority: fc.option(key),
    supply: u64,
    decimals: fc.integer({ min: 0, max: 255 }),
    freeze: fc.option(key),
    extensions: fc.option(extensions),
  });
  fc.assert(
    fc.property(mint, (given) => {
      const base = Buffer.alloc(MintLayout.span);
      MintLayout.encode(
        {
          mintAuthorityOption: given.authority === null ? 0 : 1,
          mintAuthority: new PublicKey(given.authority ?? new Uint8Array(32)),
          supply: given.supply,
          decimals: given.decimals,
          isInitialized: true,
          freezeAuthorityOption: given.freeze === null ? 0 : 1,
          freezeAuthority: new PublicKey(given.freeze ?? new Uint8Array(32)),
        },
        base,
      );
      const is2022 = given.program === TOKEN_2022_PROGRAM && given.extensions !== null;
      const data = is2022 ? withExtensions(base, AccountType.Mint, given.extensions!) : base;
      const info = { data, owner: programId(given.program), executable: false, lamports: 1 };
      const theirs = unpackMint(anywhere, info, programId(given.program));
      const { value: ours } = decodeMint({ owner: given.program, data });
      assert.ok(ours !== null);
      assert.deepEqual(
        [ours.supply, ours.decimals, ours.mintAuthority, ours.freezeAuthority],
        [theirs.supply, theirs.decimals, name(given.authority), name(given.freeze)],
      );
      if (is2022)
        assert.deepEqual(
          ours.extensions.map(({ type }) => type).slice(0, given.extensions!.length),
          getExtensionTypes(theirs.tlvData).slice(0, given.extensions!.length),
        );
      assert.equal(decodeTokenAccount({ owner: given.program, data }).value, null);
    }),
  );
});

test('token accounts match the published client', () => {
  const account = fc.record({
    program,
    mint: key,
    owner: key,
    amount: u64,
    delegate: fc.option(key),
    state: fc.integer({ min: 1, max: 2 }),
    reserve: fc.option(u64),
    delegated: u64,
    close: fc.option(key),
    extensions: fc.option(extensions),
  });
  fc.assert(
    fc.property(account, (given) => {
      const base = Buffer.alloc(AccountLayout.span);
      AccountLayout.encode(
        {
          mint: new PublicKey(given.mint),
          owner: new PublicKey(given.owner),
          amount: given.amount,
          delegateOption: given.delegate === null ? 0 : 1,
          delegate: new PublicKey(given.delegate ?? new Uint8Array(32)),
          delegatedAmount: given.delegated,
          state: given.state,
          isNativeOption: given.reserve === null ? 0 : 1,
          isNative: given.reserve ?? 0n,
          closeAuthorityOption: given.close === null ? 0 : 1,
          closeAuthority: new PublicKey(given.close ?? new Uint8Array(32)),
        },
        base,
      );
      const is2022 = given.program === TOKEN_2022_PROGRAM && given.extensions !== null;
      const data = is2022 ? withExtensions(base, AccountType.Account, given.extensions!) : base;
      const info = { data, owner: programId(given.program), executable: false, lamports: 1 };
      const theirs = unpackAccount(anywhere, info, programId(given.program));
      const { value: ours } = decodeTokenAccount({ owner: given.program, data });
      assert.ok(ours !== null);
      assert.deepEqual(
        [
          ours.mint,
          ours.owner,
          ours.amount,
          ours.delegate,
          ours.delegatedAmount,
          ours.isFrozen,
          ours.nativeReserve,
          ours.closeAuthority,
        ],
        [
          name(given.mint),
          name(given.owner),
          theirs.amount,
          name(given.delegate),
          theirs.delegatedAmount,
          theirs.isFrozen,
          theirs.rentExemptReserve,
          name(given.close),
        ],
      );
      assert.equal(decodeMint({ owner: given.program, data }).value, null);
    }),
  );
});

test('addresses match web3.js and the published client', () => {
  const metadataProgram = new PublicKey('metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s');
  const derived = (...seeds: Uint8Array[]) =>
    PublicKey.findProgramAddressSync(
      [Buffer.from('metadata'), metadataProgram.toBytes(), ...seeds],
      metadataProgram,
    )[0].toBase58();
  fc.assert(
    fc.property(key, key, program, (mintBytes, other, tokenProgram) => {
      const mint = encode32(mintBytes);
      assert.equal(
        associatedTokenAccount(encode32(other), mint, tokenProgram),
        getAssociatedTokenAddressSync(
          new PublicKey(mint),
          new PublicKey(other),
          true,
          programId(tokenProgram),
        ).toBase58(),
      );
      assert.equal(metadataAddress(mint), derived(mintBytes));
      assert.equal(editionAddress(mint), derived(mintBytes, Buffer.from('edition')));
      assert.equal(tokenRecordAddress(mint, encode32(other)), derived(mintBytes, Buffer.from('token_record'), other));
    }),
    { numRuns: 30 },
  );
});

test('the fee of a transfer matches the published client', () => {
  const fee = fc.record({
    epoch: fc.bigInt({ min: 0n, max: 20n }),
    maximum: u64,
    basisPoints: fc.integer({ min: 0, max: 10_000 }),
  });
  fc.assert(
    fc.property(fee, fee, u64, fc.bigInt({ min: 0n, max: 20n }), (older, newer, amount, epoch) => {
      const theirs = ({ epoch, maximum, basisPoints }: typeof older) => ({
        epoch,
        maximumFee: maximum,
        transferFeeBasisPoints: basisPoints,
      });
      const config = { feeAuthority: null, withdrawAuthority: null, withheld: 0n, older, newer };
      const expected = calculateEpochFee(
        {
          transferFeeConfigAuthority: anywhere,
          withdrawWithheldAuthority: anywhere,
          withheldAmount: 0n,
          olderTransferFee: theirs(older),
          newerTransferFee: theirs(newer),
        },
        epoch,
        amount,
      );
      assert.equal(transferFee(config, amount, epoch), expected);
    }),
  );
});

test('plain amounts are exact', () => {
  fc.assert(
    fc.property(u64, fc.integer({ min: 0, max: 30 }), (raw, decimals) => {
      const text = plainAmount(raw, decimals);
      assert.match(text, /^(0|[1-9]\d*)(\.\d*[1-9])?$/);
      const [whole = '', fraction = ''] = text.split('.');
      assert.equal(BigInt(whole + fraction.padEnd(decimals, '0')), raw);
      assert.equal(plainAmount(-raw, decimals), raw === 0n ? '0' : `-${text}`);
    }),
  );
});

test('scaled amounts agree with the published client to within one raw unit', () => {
  const time = fc.integer({ min: 1_500_000_000, max: 2_000_000_000 });
  const rate = fc.integer({ min: -5_000, max: 5_000 });
  const amount = fc.bigInt({ min: 0n, max: 2n ** 50n });
  const near = (text: string, theirs: string, decimals: number) => {
    const [ours, other] = [Number(text), Number(theirs)];
    // Slightly more than the unit: the difference of two decimal fractions is not exact.
    const slack = 1.000001 * Number(`1e-${decimals}`) + Math.abs(other) * 1e-12;
    assert.ok(Math.abs(ours - other) <= slack, `${text} is not ${theirs}`);
    assert.doesNotMatch(text, /e|\.\d*0$|\.$/);
  };
  fc.assert(
    fc.property(
      amount,
      fc.integer({ min: 0, max: 9 }),
      time,
      time,
      time,
      rate,
      rate,
      (raw, decimals, initialized, lastUpdate, now, averageRate, currentRate) => {
        const scale = { kind: 'interest', initialized, averageRate, lastUpdate, rate: currentRate } as const;
        const theirs = amountToUiAmountForInterestBearingMintWithoutSimulation(
          raw,
          decimals,
          now,
          lastUpdate,
          initialized,
          averageRate,
          currentRate,
        );
        near(uiAmount(raw, decimals, scale, now), theirs, decimals);
      },
    ),
  );
  fc.assert(
    fc.property(
      amount,
      fc.integer({ min: 0, max: 9 }),
      fc.double({ min: 0.001, max: 1_000, noNaN: true }),
      (raw, decimals, multiplier) => {
        const scale = { kind: 'multiplier', multiplier, newMultiplier: 77, newFrom: 10 } as const;
        const theirs = amountToUiAmountForScaledUiAmountMintWithoutSimulation(raw, decimals, multiplier);
        near(uiAmount(raw, decimals, scale, 9), theirs, decimals);
        assert.equal(uiAmount(raw, decimals, scale, 10), uiAmount(raw, decimals, { ...scale, multiplier: 77 }, 0));
      },
    ),
  );
  // Cut to whole raw units, as the program does, not rounded.
  for (const [raw, decimals, shown] of [
    [1n, 0, '1'],
    [3n, 0, '4'],
    [1n, 2, '0.01'],
    [2n, 2, '0.03'],
  ] as const)
    assert.equal(
      uiAmount(raw, decimals, { kind: 'multiplier', multiplier: 1.5, newMultiplier: 1, newFrom: 10 }, 0),
      shown,
    );
  assert.equal(uiAmount(5n, 0, { kind: 'multiplier', multiplier: Number.NaN, newMultiplier: 1, newFrom: 10 }, 0), '5');
});

test('all types of the published client have the same number here', () => {
  for (const [label, number] of Object.entries(ExtensionType)) {
    if (typeof number !== 'number') continue;
    const base = Buffer.alloc(82);
    base[45] = 1;
    const data = withExtensions(base, AccountType.Mint, [{ type: number, value: new Uint8Array(3) }]);
    const [extension] = decodeMint({ owner: TOKEN_2022_PROGRAM, data }).value?.extensions ?? [];
    const found = number === 0 ? undefined : extension?.name;
    const expected = number === 0 ? undefined : label.replace(/Config$/, '');
    assert.equal(found?.replace(/Config$/, ''), expected);
  }
});
