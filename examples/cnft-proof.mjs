// Proves that a compressed NFT is in its tree: hashes its leaf with the proof of the daemon up to a root, and looks for that root on the chain.
//   API_KEY=KEY node cnft-proof.mjs ASSET
import { rpc } from './client.mjs';
import { keccak256 } from './keccak.mjs';

const [id] = process.argv.slice(2);
if (id === undefined) throw new Error('give the id of a compressed NFT');

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
function bytesOf(text) {
  const value = [...text].reduce((sum, letter) => sum * 58n + BigInt(ALPHABET.indexOf(letter)), 0n);
  return Buffer.from(value.toString(16).padStart(64, '0'), 'hex');
}

/** The root that the leaf and its siblings lead to. A node with an even number is the left one of its pair. */
function rootOf({ leaf, proof, node_index }) {
  let node = node_index;
  let hash = bytesOf(leaf);
  for (const sibling of proof.map(bytesOf)) {
    hash = keccak256(Buffer.concat(node % 2 === 0 ? [hash, sibling] : [sibling, hash]));
    node = Math.floor(node / 2);
  }
  return hash;
}

/** The last roots of a tree, newest first: its account keeps some, so that a proof stays good while others change the tree. */
async function rootsOf(tree) {
  const { value } = await rpc('getAccountInfo', [tree, { encoding: 'base64', commitment: 'confirmed' }]);
  if (value === null) throw new Error(`there is no tree ${tree} on this chain`);
  const data = Buffer.from(value.data[0], 'base64');
  const [size, depth] = [data.readUInt32LE(2), data.readUInt32LE(6)];
  const [newest, kept] = [Number(data.readBigUInt64LE(64)), Number(data.readBigUInt64LE(72))];
  return Array.from({ length: kept }, (_, back) => {
    const at = 80 + ((newest - back + size) % size) * (32 + 32 * depth + 8);
    return data.subarray(at, at + 32);
  });
}

const proof = await rpc('getAssetProof', { id });
const root = rootOf(proof);
const age = (await rootsOf(proof.tree_id)).findIndex((one) => one.equals(root));
if (age === -1) throw new Error('the tree on the chain has no such root: the proof is wrong');
console.log(`${id} is leaf ${proof.node_index - 2 ** proof.proof.length} of ${proof.tree_id}`);
console.log(`its ${proof.proof.length} siblings lead to ${age === 0 ? 'the root' : `a root ${age} changes old`} on the chain`);
