import type { Poseidon } from '../../../src/solana/merkle/poseidon.ts';

/** A path of a Merkle tree, to be proved. All bytes are 32. */
export interface PathToProve {
  readonly root: Uint8Array;
  readonly height: number;
  readonly leafIndex: number;
  /** Bottom-up. */
  readonly siblings: readonly Uint8Array[];
}

export interface AccountToProve extends PathToProve {
  readonly leaf: Uint8Array;
}

/** The path is that of the element below the address. */
export interface AddressToProve extends PathToProve {
  readonly address: Uint8Array;
  readonly lowerValue: Uint8Array;
  readonly higherValue: Uint8Array;
  readonly nextIndex: number;
}

/** Height of the trees of the first version: their circuits take all values as public inputs, the others one hash of them. */
const V1_HEIGHT = 26;
const HASH_BYTES = 32;

/** The JSON body for a prover. The trees of the accounts have one height, and so have those of the addresses. */
export function proofRequest(
  poseidon: Pick<Poseidon, 'hash'>,
  accounts: readonly AccountToProve[],
  addresses: readonly AddressToProve[],
): string {
  const stateTreeHeight = accounts[0]?.height;
  const addressTreeHeight = addresses[0]?.height;
  const isHashed = [stateTreeHeight, addressTreeHeight].some((height) => height !== undefined && height !== V1_HEIGHT);
  return JSON.stringify({
    circuitType:
      addressTreeHeight === undefined ? 'inclusion' : stateTreeHeight === undefined ? 'non-inclusion' : 'combined',
    stateTreeHeight,
    addressTreeHeight,
    publicInputHash: isHashed ? hex(publicInputHash(poseidon, accounts, addresses)) : undefined,
    inputCompressedAccounts: accounts.length === 0 ? undefined : accounts.map(accountInput),
    newAddresses: addresses.length === 0 ? undefined : addresses.map(addressInput),
  });
}

const pathInput = ({ root, leafIndex, siblings }: PathToProve) => ({
  root: hex(root),
  pathIndex: leafIndex,
  pathElements: siblings.map(hex),
});

const accountInput = (account: AccountToProve) => ({ ...pathInput(account), leaf: hex(account.leaf) });

const addressInput = (element: AddressToProve) => ({
  ...pathInput(element),
  value: hex(element.address),
  leafLowerRangeValue: hex(element.lowerValue),
  leafHigherRangeValue: hex(element.higherValue),
  nextIndex: element.nextIndex,
});

const hex = (bytes: Uint8Array): string =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`;

/** What a circuit with one public input takes: the chain over (root, value) of each kind, of both kinds the hash of the two. */
function publicInputHash(
  poseidon: Pick<Poseidon, 'hash'>,
  accounts: readonly Pick<AccountToProve, 'root' | 'leaf'>[],
  addresses: readonly Pick<AddressToProve, 'root' | 'address'>[],
): Uint8Array {
  const hash = (elements: readonly Uint8Array[]): Uint8Array => {
    const result = new Uint8Array(HASH_BYTES);
    poseidon.hash(elements.length, Buffer.concat(elements), 0, result, 0, 1);
    return result;
  };
  const chain = (pairs: readonly (readonly [Uint8Array, Uint8Array])[]): Uint8Array | null =>
    pairs.reduce<Uint8Array | null>((sum, [root, value]) => hash([...(sum === null ? [] : [sum]), root, value]), null);
  const chains = [
    chain(accounts.map(({ root, leaf }) => [root, leaf])),
    chain(addresses.map(({ root, address }) => [root, address])),
  ].filter((sum) => sum !== null);
  const [first, second] = chains;
  if (first === undefined) throw new RangeError('there is nothing to prove');
  return second === undefined ? first : hash([first, second]);
}
