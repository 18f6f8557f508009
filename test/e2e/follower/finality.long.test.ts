/** A follower that checks certificates: a fake Yellowstone server of proto 14 sends footers, a fake node has the ranks. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { ProtobufReader } from '../../../src/lib/protobuf.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { BlockFooter } from '../../../src/solana/finality/footer.ts';
import { OPERATOR_TOKEN } from '../../conformance/dashboard/harness.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { blockIdOf, createValidators, footerOf, footerUpdate, type Signers } from '../../helpers/finality-signer.ts';
import { geyserMissing } from '../../helpers/geyser.ts';
import { GEYSER_DIR } from '../../helpers/packages.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { logIn, openPage } from '../dashboard/visit.ts';
import { type BedOptions, createBed, grow, type Running, settles, until } from './harness.ts';

const SHRED_VERSION = 50_093;
/** Stake falls with the rank; ranks 0 to 5 have 83 %. */
const STAKES = [240n, 200n, 150n, 100n, 80n, 60n, 50n, 50n, 40n, 30n].map((share) => share * 10n ** 15n);
const MAJORITY = [0, 1, 2, 3, 4, 5];
const validators = createValidators(STAKES);
/** Of 10 ms each or more, and of the time that a look takes. */
const MAX_LOOKS = 3_000;

interface FooterServer {
  readonly url: string;
  /** Subscriptions that asked for footers with their certificates. */
  subscribed(): number;
  /** gRPC status of new subscriptions; null: they are taken. */
  refuse(status: number | null): void;
  send(footer: BlockFooter | Buffer): void;
  /** Cuts all connections. */
  cut(): void;
}

/** Written apart from the program: frames of five bytes over HTTP/2. */
async function startFooterServer(t: TestContext): Promise<FooterServer> {
  const server: Http2Server = createServer();
  const sessions = new Set<ServerHttp2Session>();
  const streams = new Set<ServerHttp2Stream>();
  let subscribed = 0;
  let refusal: number | null = null;
  server.on('session', (session: ServerHttp2Session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
  });
  server.on('stream', (stream: ServerHttp2Stream) => {
    stream.on('error', () => undefined);
    stream.once('close', () => streams.delete(stream));
    if (refusal !== null) {
      stream.respond(
        { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': refusal },
        { endStream: true },
      );
      return;
    }
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    stream.once('data', (bytes: Buffer) => {
      if (!asksForCertificates(bytes.subarray(5))) return;
      subscribed += 1;
      streams.add(stream);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const session of sessions) session.destroy();
  };
  t.after(() => {
    cut();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    subscribed: () => subscribed,
    refuse(status) {
      refusal = status;
    },
    send(footer) {
      const update = Buffer.isBuffer(footer) ? footer : footerUpdate(footer);
      const head = Buffer.alloc(5);
      head.writeUInt32BE(update.length, 1);
      for (const stream of streams) stream.write(Buffer.concat([head, update]));
    },
    cut,
  };
}

/** `block_footer = 12`, a map of labels to `{include_certificates = 1}`. */
function asksForCertificates(request: Buffer): boolean {
  const reader = new ProtobufReader(request);
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 12) return reader.view().includes(Buffer.from([0x12, 2, 0x08, 1]));
    reader.skip();
  }
  return false;
}

/** What a node of Agave 4.5 answers. */
function serveRanks(node: TestUpstream, map: () => string = () => validators.mapText(0)): void {
  node.on('getEpochSchedule', {
    result:
      '{"slotsPerEpoch":432000,"leaderScheduleSlotOffset":432000,"warmup":false,"firstNormalEpoch":0,"firstNormalSlot":0}',
  });
  node.on('getClusterNodes', {
    result: JSON.stringify([{ shredVersion: SHRED_VERSION }, { shredVersion: SHRED_VERSION }, { shredVersion: 1 }]),
  });
  node.on('getRankMap', () => ({ result: `{"context":{"slot":1},"value":${map()}}` }));
}

async function finalityBed(t: TestContext, options: BedOptions & { readonly map?: () => string } = {}) {
  const server = await startFooterServer(t);
  const bed = await createBed(t, { ...options, footersUrl: server.url });
  serveRanks(bed.nodes[0]!.server, options.map);
  grow(bed.world, 10);
  const running = await bed.follow();
  await settles(bed);
  const slotAt = (place: number) => bed.world.chain.at(place)!.slot;
  return { ...bed, server, running, slotAt };
}

const certificateOf = (slot: number, signers: Signers = { ranks: MAJORITY }, shredVersion = SHRED_VERSION) =>
  validators.sign({ slot, blockId: blockIdOf(`block ${slot}`), shredVersion }, signers);
const finality = (running: Running) => running.follower.status().finality!;
const isSubscribed = (server: FooterServer) => reaches(() => server.subscribed() > 0);

/** Waits for it and asserts it, so that a wait that never ends is a failure. */
async function reaches(check: () => boolean | Promise<boolean>): Promise<void> {
  let isReached = false;
  await until(async () => {
    isReached = await check();
    return isReached;
  }, MAX_LOOKS);
  assert.equal(isReached, true);
}

async function count(running: Running, result: string): Promise<number> {
  const pattern = new RegExp(`^parhelion_follow_certificates_total\\{result="${result}"\\} (\\d+)$`, 'm');
  return Number(pattern.exec(await running.metrics())?.[1] ?? 0);
}

describe('verified finality', () => {
  test('slots are verified by the stake that signed, in one round or two, and counted', async (t) => {
    const { server, running, slotAt } = await finalityBed(t);
    await isSubscribed(server);
    assert.equal(finality(running).state, 'waiting');
    server.send(footerOf(slotAt(-2), certificateOf(slotAt(-4))));
    await reaches(() => finality(running).verified?.slot === slotAt(-4));
    server.send(footerOf(slotAt(-1), certificateOf(slotAt(-3), { ranks: [0, 1, 2, 3], finalizers: [0, 1, 2, 4] })));
    await reaches(() => finality(running).verified?.slot === slotAt(-3));
    assert.deepEqual(finality(running), {
      state: 'checking',
      reason: null,
      verified: { slot: slotAt(-3), stakePercent: 67, rounds: 'slow' },
      recent: [
        { slot: slotAt(-3), stakePercent: 67, rounds: 'slow' },
        { slot: slotAt(-4), stakePercent: 83, rounds: 'fast' },
      ],
      alarm: null,
    });
    const metrics = await running.metrics();
    assert.match(metrics, new RegExp(`^parhelion_follow_verified_slot ${slotAt(-3)}$`, 'm'));
    assert.match(metrics, /^parhelion_follow_verified_stake_ratio 0\.67$/m);
    assert.equal(await count(running, 'verified'), 2);
    // A footer without a certificate, and one that repeats what is known, say nothing new.
    server.send(footerOf(slotAt(-1), null));
    server.send(footerOf(slotAt(-1), certificateOf(slotAt(-4))));
    server.send(footerOf(slotAt(-1), certificateOf(slotAt(-2))));
    await reaches(() => finality(running).verified?.slot === slotAt(-2));
    assert.equal(await count(running, 'verified'), 3);
  });

  test('a certificate that does not hold is an alarm, verifies nothing and holds up nothing', async (t) => {
    const { server, running, slotAt, world, store } = await finalityBed(t);
    await isSubscribed(server);
    const slot = slotAt(-3);
    const good = certificateOf(slot);
    const flipped = Uint8Array.from(good.final.signature);
    flipped[50]! ^= 4;
    const others = createValidators(STAKES, 'other');
    const forged: [string, BlockFooter | Buffer, RegExp][] = [
      ['a flipped bit', footerOf(slot + 2, { ...good, final: { ...good.final, signature: flipped } }), /signature/],
      ['too little stake', footerOf(slot + 2, certificateOf(slot, { ranks: [0, 1, 2, 3, 4] })), /too little stake/],
      ['another cluster', footerOf(slot + 2, certificateOf(slot, { ranks: MAJORITY }, 7)), /not one of these/],
      [
        'other validators',
        footerOf(
          slot + 2,
          others.sign({ slot, blockId: blockIdOf('x'), shredVersion: SHRED_VERSION }, { ranks: MAJORITY }),
        ),
        /not one of these/,
      ],
      ['a slot above its footer', footerOf(slot, good), /not below/],
      ['bytes that are no footer', Buffer.from([0x62, 0x02, 0x08, 0xff]), /malformed/],
    ];
    for (const [index, [name, footer, text]] of forged.entries()) {
      server.send(footer);
      await reaches(async () => (await count(running, 'refused')) === index + 1);
      assert.match(finality(running).alarm?.reason ?? '', text, name);
      assert.equal(finality(running).verified, null, name);
    }
    assert.ok(running.log.lines.some((line) => line.level === 'error' && line.fields['event'] === 'chain.finality'));
    grow(world, 5);
    await settles({ world, store });
    // The next one that holds is verified; the alarm stays in the status.
    server.send(footerOf(slot + 2, good));
    await reaches(() => finality(running).verified?.slot === slot);
    assert.notEqual(finality(running).alarm, null);
    assert.equal(await count(running, 'contradicted'), 0);
  });

  test('a certificate for a slot that the followed chain left out contradicts it', async (t) => {
    const { server, running, world, store } = await finalityBed(t);
    await isSubscribed(server);
    world.grow(1, 1);
    world.grow(0, 1);
    await settles({ world, store });
    const after = world.chain.at(-2)!;
    const left = after.slot - 1;
    assert.equal(world.blockAt(left), undefined);
    server.send(footerOf(after.slot + 1, certificateOf(left)));
    await reaches(async () => (await count(running, 'contradicted')) === 1);
    assert.deepEqual([finality(running).alarm?.slot, finality(running).verified], [left, null]);
    // One that is ahead of what was released waits for its block.
    const next = world.chain.at(-1)!.slot + 1;
    server.send(footerOf(next + 1, certificateOf(next)));
    world.grow(0, 1);
    await reaches(() => finality(running).verified?.slot === next);
  });

  test('ranks that are not in order are refused; certificates are checked once they are right', async (t) => {
    let isWrong = true;
    const { server, running, slotAt, nodes } = await finalityBed(t, {
      map: () => (isWrong ? validators.mapText(0).replace('"totalStake":1', '"totalStake":2') : validators.mapText(0)),
    });
    await isSubscribed(server);
    server.send(footerOf(slotAt(-1), certificateOf(slotAt(-3))));
    await reaches(async () => (await count(running, 'unchecked')) === 1);
    assert.match(finality(running).reason ?? '', /ranks of epoch 0 are refused: the stakes do not add up/);
    isWrong = false;
    await reaches(() => {
      server.send(footerOf(slotAt(-1), certificateOf(slotAt(-3))));
      return finality(running).verified?.slot === slotAt(-3);
    });
    // A cluster that is restarted has another shred version: what is known is read again before an alarm.
    nodes[0]!.server.on('getClusterNodes', { result: '[{"shredVersion":77}]' });
    server.send(footerOf(slotAt(-1), certificateOf(slotAt(-2), { ranks: MAJORITY }, 77)));
    await reaches(() => finality(running).verified?.slot === slotAt(-2));
    assert.equal(finality(running).alarm, null);
  });

  test('more certificates than the machine can check are sampled, and all are counted', async (t) => {
    const { server, running, slotAt, world, store } = await finalityBed(t);
    await isSubscribed(server);
    grow(world, 60);
    await settles({ world, store });
    const slots = world.chain.slice(-60, -1).map(({ slot }) => slot);
    const footers = slots.map((slot) => footerOf(slotAt(-1), certificateOf(slot)));
    for (const footer of footers) server.send(footer);
    const counts = async () => Promise.all(['verified', 'sampled'].map((result) => count(running, result)));
    await reaches(async () => {
      const [verified = 0, sampled = 0] = await counts();
      return verified + sampled === slots.length;
    });
    const [verified = 0, sampled = 0] = await counts();
    assert.ok(verified >= 16 && sampled > 0, `${verified} verified, ${sampled} sampled`);
    assert.equal(finality(running).verified?.slot, slots.at(-1));
  });

  test('without such upstreams nothing is checked, and the status says why', async (t) => {
    const server = await startFooterServer(t);
    server.refuse(3);
    const bed = await createBed(t);
    grow(bed.world, 5);
    const without = await bed.follow();
    await settles(bed);
    assert.equal(finality(without).state, 'off');
    assert.match(finality(without).reason ?? '', /follow\.stream/);
    await without.stop();
    const refused = await bed.follow({ footersUrl: server.url });
    await reaches(() => finality(refused).reason?.includes('refuses') === true);
    assert.match(finality(refused).reason ?? '', /the Yellowstone server refuses footers: invalidArgument/);
    await refused.stop();
    server.refuse(null);
    const older = await bed.follow({ footersUrl: server.url });
    await isSubscribed(server);
    assert.equal(finality(older).reason, 'no footer has arrived');
    server.send(footerOf(bed.world.chain.at(-1)!.slot, certificateOf(bed.world.chain.at(-2)!.slot)));
    await reaches(() => finality(older).reason?.includes('getEpochSchedule') === true);
    // A connection that is lost is opened again.
    serveRanks(bed.nodes[0]!.server);
    server.cut();
    await reaches(() => server.subscribed() === 2);
    // Blocks of before this start are not known to be on the followed branch.
    grow(bed.world, 3);
    await settles(bed);
    await reaches(() => {
      server.send(footerOf(bed.world.chain.at(-1)!.slot, certificateOf(bed.world.chain.at(-2)!.slot)));
      return finality(older).verified !== null;
    });
  });
});

/** A daemon before the chain's own node, but for the ranks, and a server that sends footers. */
async function startVerifying(t: TestContext) {
  const [chain, server, node] = await Promise.all([startChain(), startFooterServer(t), startUpstream()]);
  node.on('*', async ({ body }) => {
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    return { chunks: [await response.text()] };
  });
  for (const method of ['getSlot', 'getHealth', 'getVersion', 'getFirstAvailableBlock', 'getGenesisHash'])
    node.on(method, async (call) => ({
      result: JSON.stringify(await resultOf(chain.rpcUrl, method, call.params)),
    }));
  serveRanks(node);
  const daemon = await startDaemonProcess({
    chain: { rpcUrl: node.url, wsUrl: chain.wsUrl },
    folder: GEYSER_DIR,
    config: {
      follow: { stream: { plugin: 'yellowstone', url: server.url } },
      dashboard: { operatorToken: OPERATOR_TOKEN, liveIntervalMs: 250 },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await Promise.all([chain.stop(), node.stop()]);
  });
  const readiness = async () => {
    const { checks, chain: chains } = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as {
      readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[];
      readonly chain: readonly ChainStatus[];
    };
    return { check: checks.find(({ name }) => name === 'chain main: finality'), status: chains[0]! };
  };
  const address = '11111111111111111111111111111112';
  await isSubscribed(server);
  await reaches(async () => {
    await chain.fund(address, 1_000_000);
    return ((await readiness()).status.cursorSlot ?? -1) > 0;
  });
  return {
    daemon,
    readiness,
    /** Until a released slot is verified, which is returned. */
    async verifies(): Promise<number> {
      await reaches(async () => {
        await chain.fund(address, 1_000_000);
        const slot = (await readiness()).status.cursorSlot!;
        server.send(footerOf(slot + 2, certificateOf(slot)));
        return (await readiness()).status.finality?.verified !== null;
      });
      return (await readiness()).status.finality!.verified!.slot;
    },
    /** Until a certificate that too little stake signed is an alarm. On a busy machine the daemon may be between two connections. */
    async refuses(slot: number): Promise<void> {
      const forged = { slot, blockId: blockIdOf('another block'), shredVersion: SHRED_VERSION };
      await reaches(async () => {
        server.send(footerOf(slot + 2, validators.sign(forged, { ranks: [0, 1] })));
        return (await readiness()).check?.ok === false;
      });
    },
  };
}

describe('a daemon that verifies', { skip: geyserMissing() ?? (await chainMissing()) ?? false }, () => {
  test('readiness, metrics and doctor say which slot is verified by how much stake, and a false certificate', async (t) => {
    const { daemon, readiness, verifies, refuses } = await startVerifying(t);
    const slot = await verifies();
    await reaches(async () => (await readiness()).check?.detail.startsWith('verified up to slot') === true);
    const { check } = await readiness();
    assert.equal(check?.ok, true);
    assert.match(check!.detail, /^verified up to slot \d+, by 83 % of the stake in one round$/);
    const doctor = async () => {
      const { out } = await runCommand(['doctor', '--json', '--config', daemon.configFile]);
      const { findings } = JSON.parse(out) as { findings: Finding[] };
      return findings.filter((finding) => finding.check === 'finality');
    };
    const ask = async (params: readonly unknown[]) => {
      const url = `${daemon.apiUrl}/?api-key=${daemon.key}`;
      return (await resultOf(url, 'getSlotFinality', params)) as {
        readonly context: { readonly slot: number };
        readonly value: {
          readonly certificate: unknown;
          readonly reason: string | null;
          readonly alarm: string | null;
        };
      };
    };
    const certificate = { slot, stakePercent: 83, rounds: 'fast' };
    const proven = { isFinal: true, certificate, reason: null, alarm: null };
    assert.deepEqual((await ask([slot])).value, { slot, ...proven });
    // A certificate proves what is below it, too.
    assert.deepEqual((await ask([0])).value, { slot: 0, ...proven });
    const { value: beyond } = await ask([slot + 1_000_000]);
    const { reason, ...facts } = beyond;
    assert.deepEqual(facts, { slot: slot + 1_000_000, isFinal: false, certificate: null, alarm: null });
    const [, newest, asked] = /^the newest certificate that was checked is of slot (\d+), below (\d+)$/.exec(reason!)!;
    // A later footer may have been checked meanwhile.
    assert.ok(Number(newest) >= slot && Number(asked) === slot + 1_000_000, reason!);
    const [calm] = await doctor();
    assert.deepEqual([calm?.level, /^main: verified up to slot/.test(calm?.detail ?? '')], ['ok', true]);
    await refuses(slot);
    const after = await readiness();
    assert.match(
      after.check!.detail,
      /^the certificate of slot \d+ does not prove it final: too little stake signed it; verified up to/,
    );
    assert.equal((await fetch(`${daemon.adminUrl}/readyz`)).status, 200);
    const told = (await ask([])).value;
    assert.match(told.alarm ?? '', /^the certificate of slot \d+ does not prove it final: too little stake signed it$/);
    const [alarmed] = await doctor();
    assert.equal(alarmed?.level, 'warn');
    const metrics = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    assert.match(metrics, /^parhelion_follow_certificates_total\{[^}]*result="refused"[^}]*\} [1-9]\d*$/m);
    assert.match(metrics, /^parhelion_follow_verified_slot(\{[^}]*\})? [1-9]\d*$/m);
    // The log is written once a second.
    await reaches(() => /chain\.finality/.test(daemon.output()));
  });

  test('the dashboard shows the verified slots with their stake, and a false certificate', {
    skip: chromiumMissing() ?? false,
  }, async (t) => {
    const bed = await startVerifying(t);
    const slot = await bed.verifies();
    const browser = await startChromium();
    t.after(() => browser.close());
    const { page, faults } = await openPage(browser, bed);
    await logIn(page);
    const card = page.locator('section.card', { has: page.getByRole('heading', { name: 'Verified finality' }) });
    await card.getByText('83 % of the stake').waitFor();
    const row = card.getByRole('table', { name: 'Newest verified slots' }).getByRole('row').nth(1);
    await reaches(async () => {
      const { finality: known } = (await bed.readiness()).status;
      return (await row.textContent()) === `${known!.verified!.slot.toLocaleString('en-US')}83 %one round`;
    });
    await page.getByText('Everything works').waitFor();
    await bed.refuses(slot);
    await page
      .getByText(/the certificate of slot [\d,]+ does not prove it final: too little stake signed it/)
      .first()
      .waitFor();
    assert.equal(await page.getByText('Everything works').count(), 0);
    assert.deepEqual([await axeFaults(page), faults], [[], []]);
  });
});

async function resultOf(url: string, method: string, params: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const { result, error } = (await response.json()) as { readonly result?: unknown; readonly error?: unknown };
  assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
  return result;
}
