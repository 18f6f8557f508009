import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Readiness } from '../../http/health.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { exitCodeOf, type Finding, fail, failedBy, ok, warn } from './finding.ts';
import { dataFolderFindings, nodeFinding, openFilesIn, roomIn, unitFindings } from './host.ts';
import { readinessFindings } from './store.ts';

const levels = (findings: readonly Finding[]) => findings.map(({ level }) => level);

test('the exit code is that of the failure to fix first; warnings never fail', () => {
  const codes = fc.constantFrom(57, 75, 78);
  const finding = fc.oneof(
    fc.constant(ok('a', 'b')),
    fc.constant(warn('a', 'b', 'c')),
    codes.map((code) => fail('a', 'b', 'c', code)),
  );
  fc.assert(
    fc.property(fc.array(finding, { maxLength: 8 }), (findings) => {
      const failed = findings.filter(({ level }) => level === 'fail').map(({ exitCode }) => exitCode);
      const expected = [78, 57, 75].find((code) => failed.includes(code)) ?? 0;
      assert.equal(exitCodeOf(findings), expected);
    }),
  );
});

test('a foreign error shows only its code: its text may contain an address with a key', () => {
  const foreign = Object.assign(new Error('connect to http://host/?key=hush failed'), { code: 'ECONNREFUSED' });
  assert.equal(JSON.stringify(failedBy('x', foreign, 'y')).includes('hush'), false);
  const ours = failedBy('x', new CodedError('STORE_BUSY', 'locked', { exitCode: 75 }), 'y');
  assert.deepEqual([ours.level, ours.detail, ours.exitCode], ['fail', 'STORE_BUSY: locked', 75]);
});

test('node versions', () => {
  for (const [version, level] of [
    ['v18.20.0', 'fail'],
    ['v20.18.3', 'fail'],
    ['v20.19.0', 'ok'],
    ['v22.12.0', 'warn'],
    ['v24.0.0', 'ok'],
  ] as const)
    assert.equal(nodeFinding(version).level, level, version);
});

test('open files: the soft limit counts, against the connections that are allowed', () => {
  const limits = (soft: string) =>
    `Limit                     Soft Limit           Hard Limit           Units     \nMax open files            ${soft.padEnd(20)} 1048576              files     \n`;
  assert.equal(openFilesIn(limits('1024'), 10_000, 'this shell').level, 'warn');
  assert.equal(openFilesIn(limits('65536'), 10_000, 'this shell').level, 'ok');
  assert.equal(openFilesIn(limits('1024'), 500, 'this shell').level, 'ok');
  assert.equal(openFilesIn(limits('unlimited'), 1e9, 'this shell').level, 'ok');
});

test('data folder: absent, ours, of another user, a file; and the free space on its disk', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-doctor-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const uid = process.getuid?.() ?? 0;
  const first = (path: string, user = uid) => dataFolderFindings({ path, uid: user })[0]!;
  assert.match(first(join(dir, 'a/b/c')).detail, /does not exist yet; the first start creates it/);
  assert.equal(first(dir).level, 'ok');
  assert.deepEqual([first(dir, uid + 1).level, /belongs to user/.test(first(dir, uid + 1).detail)], ['warn', true]);
  assert.equal(first(dir, 0).level, 'ok', 'root may use the folder of any user');
  writeFileSync(join(dir, 'file'), '');
  assert.deepEqual([first(join(dir, 'file')).level, first(join(dir, 'file')).exitCode], ['fail', 78]);
  const mib = 1_048_576;
  assert.deepEqual(levels([100, 1_000, 10_000].map((free) => roomIn(free * mib, dir))), ['fail', 'warn', 'ok']);
});

test('service: what systemctl shows, in words', () => {
  const unit = (facts: Record<string, string>) =>
    unitFindings(
      Object.entries({ LoadState: 'loaded', ActiveState: 'active', UnitFileState: 'enabled', NRestarts: '0', ...facts })
        .map((pair) => pair.join('='))
        .join('\n'),
    );
  assert.deepEqual(levels(unit({})), ['ok']);
  assert.match(unit({ LoadState: 'not-found' })[0]!.detail, /not installed/);
  const broken = unit({ ActiveState: 'failed', Result: 'exit-code', NRestarts: '7', UnitFileState: 'disabled' });
  assert.deepEqual(levels(broken), ['fail', 'warn', 'warn']);
  assert.match(broken[0]!.detail, /has failed \(exit-code\)/);
  assert.deepEqual(levels(unit({ NeedDaemonReload: 'yes' })), ['warn']);
});

test('daemon: readiness, failing checks, lag and gaps', () => {
  const chain = {
    chain: 'main' as const,
    kind: 'rpc' as const,
    cluster: 'mainnet',
    genesisHash: 'G',
    tipSlot: 10,
    finalizedSlot: 1,
    cursorSlot: 5,
    lagSlots: 5,
    slotMs: 400,
    stalled: null,
    openGaps: 0,
  };
  const readiness: Readiness = {
    ready: true,
    draining: false,
    checks: [{ name: 'started', ok: true, detail: '' }],
    chain: [chain],
  };
  const limit = { seconds: 60, slots: null };
  assert.deepEqual(levels(readinessFindings(1, readiness, limit)), ['ok', 'ok']);
  // The same number of slots is half the lag when slots are half as long.
  const at200 = { ...readiness, chain: [{ ...chain, lagSlots: 100, slotMs: 200 }] };
  assert.deepEqual(levels(readinessFindings(1, at200, limit)), ['ok', 'ok']);
  const late = readinessFindings(1, { ...readiness, chain: [{ ...chain, lagSlots: 100, openGaps: 2 }] }, limit);
  assert.deepEqual(levels(late), ['ok', 'ok', 'warn', 'warn']);
  assert.match(late[3]!.advice!, /parhelion backfill --gaps/);
  const unread = { opaque: 2, partial: 1, last: { slot: 7, signature: null, reason: 'version 2' } };
  const odd = readinessFindings(1, { ...readiness, chain: [{ ...chain, unread }] }, limit);
  assert.deepEqual(levels(odd), ['ok', 'ok', 'warn']);
  assert.match(odd[2]!.detail, /main: 2 could not be read, 1 only in part .* without a signature in slot 7: version 2/);
  const waiting = {
    name: 'deliverer: sinks',
    ok: false,
    detail: 'rows waits for the slots from 7 on',
    required: false,
  } as const;
  const hole = readinessFindings(1, { ...readiness, checks: [waiting] }, limit);
  assert.deepEqual(levels(hole), ['ok', 'warn', 'ok']);
  assert.deepEqual(
    readinessFindings(1, { ...readiness, checks: [{ ...waiting, name: 'archive' }] }, limit).map(({ check }) => check),
    ['daemon', 'archive', 'chain'],
  );
  assert.match(hole[1]!.detail, /rows waits for the slots from 7 on/);
  const checks = [{ name: 'chain main', ok: false, detail: 'nothing for 60 s' }];
  const down = readinessFindings(1, { ...readiness, ready: false, checks }, limit);
  assert.deepEqual(levels(down), ['fail', 'fail', 'ok']);
  assert.match(down[1]!.detail, /chain main: nothing for 60 s/);
});
