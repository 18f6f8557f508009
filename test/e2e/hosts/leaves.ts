/** Compressed accounts that are made while hosts are hurt, and proofs of them: each one that is answered has to be right. */
import assert from 'node:assert/strict';
import { bn, createRpc, LightSystemProgram } from '@lightprotocol/stateless.js';
import { Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import type { TestChain } from '../../helpers/chain.ts';
import { send } from '../../helpers/light/sender.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { checkKnownRoot, checkNewestRoot, createFold, type V1Proof } from '../../helpers/light/v1-roots.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import { eventually } from '../roles/harness.ts';
import type { Client } from './client.ts';
import { createWork, type Work } from './work.ts';

export interface Leaves extends Work {
  /** Asks for proofs of some of the leaves; throws where one is wrong. None is no fault. */
  ask(): Promise<void>;
  /** At rest: every leaf that was made is known, and has a proof of the newest root of its tree. */
  check(): Promise<void>;
  /** Proofs that were right. */
  readonly proofs: number;
}

interface LeavesParts {
  readonly chain: TestChain;
  readonly client: Client;
  readonly draw: Sfc32;
  failed(error: unknown): void;
}

const EVERY_MS = 600;
const MIN_LAMPORTS = 1_000_000;
const PAGE = 1_000;
const MAX_ASKED = 5;
/** Leaves of older drills that are proved again after each. */
const SAMPLE = 20;

export async function startLeaves({ chain, client, draw, failed }: LeavesParts): Promise<Leaves> {
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 10_000 * LAMPORTS_PER_SOL);
  const { rpcUrl, wsUrl, connection } = chain;
  const rpc = createRpc(rpcUrl, rpcUrl, rpcUrl, { commitment: 'confirmed', wsEndpoint: wsUrl });
  const trees = createStateTrees().v1;
  const fold = await createFold();
  let made = 0;
  let known: readonly string[] = [];
  let proved = 0;
  let proofs = 0;

  async function make(): Promise<void> {
    const outputStateTreeInfo = trees[made % trees.length];
    assert.ok(outputStateTreeInfo);
    const [owner, lamports] = [payer.publicKey, MIN_LAMPORTS + made];
    const parts = { payer: owner, toAddress: owner, lamports: bn(lamports), outputStateTreeInfo };
    await send(rpc, { kind: 'compress', instructions: [await LightSystemProgram.compress(parts)], payer });
    made += 1;
  }

  /** Whatever is answered is about what was asked for, folds, and leads to a root that the tree had. */
  async function checked(hashes: readonly string[], answers: readonly V1Proof[]): Promise<readonly V1Proof[]> {
    assert.deepEqual(
      answers.map(({ hash }) => hash),
      hashes,
    );
    for (const proof of answers) {
      fold(proof);
      await checkKnownRoot(connection, proof);
    }
    proofs += answers.length;
    return answers;
  }

  const proveAll = async (hashes: readonly string[]): Promise<readonly V1Proof[] | null> => {
    type Answer = { readonly value: readonly V1Proof[] };
    const answer = await client.rpc<Answer>('compression', 'getMultipleCompressedAccountProofs', hashes);
    return answer === null ? null : await checked(hashes, answer.value);
  };
  const proveOne = async (hash: string): Promise<void> => {
    const answer = await client.rpc<{ readonly value: V1Proof }>('compression', 'getCompressedAccountProof', { hash });
    if (answer !== null) await checked([hash], [answer.value]);
  };

  /** All of them, page by page; null where it was not told. */
  async function owned(): Promise<readonly string[] | null> {
    type Page = {
      readonly value: { readonly items: readonly { readonly hash: string }[]; readonly cursor: string | null };
    };
    const found: string[] = [];
    let cursor: string | null = null;
    do {
      const params: object = { owner: payer.publicKey.toBase58(), limit: PAGE, ...(cursor === null ? {} : { cursor }) };
      const page: Page | null = await client.rpc<Page>('compression', 'getCompressedAccountsByOwnerV2', params);
      if (page === null) return null;
      found.push(...page.value.items.map(({ hash }) => hash));
      cursor = page.value.cursor;
    } while (cursor !== null);
    return found;
  }

  const pick = () => known[draw.below(known.length)] as string;
  return {
    ...createWork(EVERY_MS, make, failed),
    get proofs() {
      return proofs;
    },
    async ask() {
      if (known.length === 0) return;
      await proveOne(pick());
      const some = new Set(Array.from({ length: 1 + draw.below(MAX_ASKED) }, pick));
      await proveAll([...some]);
    },
    async check() {
      let all: readonly string[] | null = null;
      const isWhole = async () => {
        all = await owned();
        return all?.length === made;
      };
      await eventually(`${made} compressed accounts are known`, isWhole);
      const before = new Set(known);
      const fresh = (all ?? []).filter((hash) => !before.has(hash));
      assert.equal(fresh.length + before.size, made, 'a compressed account is gone');
      known = [...known, ...fresh];
      const sample = Array.from({ length: Math.min(SAMPLE, known.length) }, pick);
      const hashes = [...new Set([...known.slice(proved), ...sample])];
      if (hashes.length === 0) return;
      const answers = await proveAll(hashes);
      assert.ok(answers, 'a leaf has no proof');
      for (const proof of newestOf(answers)) await checkNewestRoot(connection, proof);
      proved = known.length;
    },
  };
}

/** One proof of each root that was told. */
const newestOf = (proofs: readonly V1Proof[]): Iterable<V1Proof> =>
  new Map(proofs.map((proof) => [`${proof.merkleTree} ${proof.root} ${proof.rootSeq}`, proof])).values();
