/**
 * Runs a page of `docs/tutorials` by its lines alone, as a reader would: blocks with `title=` are saved under that name, shell blocks run in
 * the folder that the page has made, those marked `running` stay until the end, and words in capitals are filled in from what was printed.
 * Plain JavaScript, so that it also runs by the Node of an installed package.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const MAX_MS = 60_000;
/** A command that stays is ready when it has printed this, or listens. */
const READY = { 'parhelion serve': /"msg":"listening"|\blistening\b/, 'webhooks listen': /listening on/ };
/** What the reader copies from an output, by the word that stands for it. */
const VALUES = {
  KEY: [/API key\s+([0-9a-f-]{36})/, /^key ([0-9a-f-]{36})$/m],
  PROJECT_ID: [/^project ([0-9a-f-]{36})/m],
  WEBHOOK_ID: [/"webhookID":"([^"]+)"/],
  OWNER: [/^owner (\S+) has/m],
  HASH: [/"hash":"([^"]+)"/],
};

/** @returns blocks of a page: `{language, words, title, text}` */
export function tutorialBlocks(markdown) {
  return [...markdown.matchAll(/^```(\w+)([^\n]*)\n(.*?)^```$/gms)].map(([, language, info, text]) => {
    const words = info
      .trim()
      .split(/\s+/)
      .filter((word) => word !== '');
    const title = words.find((word) => word.startsWith('title='))?.slice('title='.length) ?? null;
    return { language, words, title, text };
  });
}

/**
 * @param options `markdown`: the page; `folder`: where its reader is; `env`: of all commands; `ports`: what takes the place of a port that the
 * page names; `runs(block)`: whether to run one that is marked `host` or `install`, default none; `install(folder)`: takes the place of one
 * that is marked `install`; `done(block, printed)`: called after each command
 * @returns `{outputs, running, blocks, stop()}`: what each command printed, in order, and what stays, `{command, output()}`
 */
export async function runTutorial({
  markdown,
  folder,
  env,
  ports = {},
  runs = () => false,
  install = () => {},
  done = () => {},
}) {
  const values = new Map();
  const outputs = [];
  const running = [];
  let here = folder;
  const stop = async () => {
    for (const { child, ended } of running.toReversed()) {
      if (child.exitCode === null) process.kill(-child.pid, 'SIGTERM');
      await ended;
    }
  };
  const filledIn = (text) => {
    let real = text;
    for (const [from, to] of Object.entries(ports))
      real = real.replaceAll(new RegExp(`\\b${from}\\b`, 'g'), String(to));
    for (const [word, value] of values) real = real.replaceAll(new RegExp(`(?<![\\w-])${word}\\b(?!=)`, 'g'), value);
    return real;
  };
  const take = (text) => {
    for (const [word, patterns] of Object.entries(VALUES)) {
      const found = patterns.map((pattern) => pattern.exec(text)?.[1]).find((value) => value !== undefined);
      if (found !== undefined) values.set(word, found);
    }
  };
  const start = (script) => {
    // A group of its own: what the shell starts ends with it.
    const child = spawn('bash', ['-e', '-c', script], {
      cwd: here,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let text = '';
    let printed = '';
    child.stdout.on('data', (chunk) => (printed += chunk));
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += chunk));
    return { child, command: script, ended: once(child, 'close'), output: () => text, printed: () => printed };
  };
  const enter = (text) => {
    const [, made] = /^mkdir (?:-p )?(\S+) && cd /m.exec(text) ?? [];
    if (made === undefined) return;
    mkdirSync(join(here, made), { recursive: true });
    here = join(here, made);
  };

  try {
    for (const block of tutorialBlocks(markdown)) {
      const { language, words, title, text } = block;
      const isElsewhere = (words.includes('host') || words.includes('install')) && !runs(block);
      if (words.includes('output') || isElsewhere) {
        if (words.includes('install')) {
          enter(text);
          install(here);
        }
        continue;
      }
      const real = filledIn(text);
      if (title !== null) {
        mkdirSync(dirname(join(here, title)), { recursive: true });
        writeFileSync(join(here, title), real);
      } else if (language !== 'sh') throw new Error(`nobody knows how to run a block of ${language}: ${text}`);
      else if (words.includes('running')) {
        const job = start(real);
        running.push(job);
        await readyOf(job);
        enter(text);
        take(job.output());
      } else {
        for (const command of commandsIn(text)) {
          const printed = await succeed(() => start(filledIn(command)));
          outputs.push(printed);
          take(printed);
          done(block, printed);
        }
      }
    }
  } catch (error) {
    await stop();
    const logs = running.map(({ command, output }) => `${command}\n${output().slice(-4_000)}`).join('\n');
    throw new Error(`${error.message}\n${logs}`, { cause: error });
  }
  return { outputs, running, stop };
}

/** The commands of a shell block; one goes on to the next line inside quotes. */
export function commandsIn(text) {
  const commands = [];
  let open = '';
  for (const line of text.split('\n')) {
    open = open === '' ? line : `${open}\n${line}`;
    if ((open.split("'").length - 1) % 2 === 1) continue;
    if (open.trim() !== '') commands.push(open);
    open = '';
  }
  return commands;
}

/** Waits until a command that stays says or shows that it is ready. */
async function readyOf({ child, command, output }) {
  const [, pattern] = Object.entries(READY).find(([part]) => command.includes(part)) ?? [];
  const end = Date.now() + MAX_MS;
  while (Date.now() < end) {
    if (child.exitCode !== null) throw new Error(`${command} ended: ${output()}`);
    if (pattern === undefined || pattern.test(output())) return;
    await sleep(50);
  }
  throw new Error(`${command} is not ready: ${output()}`);
}

/**
 * An index is made, a block heard of: what is refused, or an empty list, for that reason comes in a moment, as it does for a reader who asks
 * again.
 */
async function succeed(start) {
  const end = Date.now() + MAX_MS;
  for (;;) {
    const job = start();
    const [code] = await job.ended;
    if (code === 0 && !/"error":|"items":\[\]/.test(job.printed())) return job.printed();
    if (Date.now() > end) throw new Error(`${job.command}: ${code} ${job.output()}`);
    await sleep(250);
  }
}

/** A folder with a command `parhelion` for the PATH of a tutorial. */
export function commandFolder(folder, program) {
  const bin = join(folder, 'bin');
  if (!existsSync(bin)) mkdirSync(bin);
  const line = program.map((word) => `'${word}'`).join(' ');
  writeFileSync(join(bin, 'parhelion'), `#!/bin/sh\nexec ${line} "$@"\n`, { mode: 0o755 });
  return bin;
}
