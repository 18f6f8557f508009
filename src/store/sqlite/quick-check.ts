import { spawn } from 'node:child_process';
import { libraryPath } from './files.ts';

export type QuickCheck =
  | { readonly kind: 'ok' }
  | { readonly kind: 'damaged'; readonly first: string }
  /** It did not end in time: nothing is known. */
  | { readonly kind: 'late' }
  | { readonly kind: 'failed'; readonly reason: string };

const SCRIPT = `
const [library, path] = process.argv.slice(1);
const Database = require(library);
const db = new Database(path, { readonly: true, fileMustExist: true });
process.stdout.write(String(db.pragma('quick_check(1)', { simple: true })));`;

/**
 * Reads the whole database for damage. In a process of its own: the library's calls cannot be interrupted, and a large database takes
 * minutes.
 */
export function quickCheck(path: string, timeoutMs: number): Promise<QuickCheck> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['-e', SCRIPT, libraryPath(), path], { stdio: ['ignore', 'pipe', 'pipe'] });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    const texts = { out: '', err: '' };
    child.stdout.on('data', (chunk: Buffer) => {
      texts.out += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      texts.err = (texts.err + chunk.toString()).slice(-4_096);
    });
    child.once('error', (error) => {
      texts.err = error.message;
    });
    child.once('close', (code) => {
      clearTimeout(timer);
      if (isLate) resolve({ kind: 'late' });
      else if (code !== 0) resolve(failureOf(reasonIn(texts.err)));
      else resolve(texts.out === 'ok' ? { kind: 'ok' } : { kind: 'damaged', first: texts.out.slice(0, 200) });
    });
  });
}

/** SQLite gives the check up itself where the damage is too bad to go on. */
const failureOf = (reason: string): QuickCheck =>
  /malformed|not a database/.test(reason) ? { kind: 'damaged', first: reason } : { kind: 'failed', reason };

/** The line of a stack that says what happened. */
function reasonIn(text: string): string {
  return /^\w*Error: (.*)$/m.exec(text)?.[1]?.slice(0, 200) ?? 'the check ended early';
}
