/** A file system of its own, whose room a test takes away and gives back. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SmallDisk {
  readonly path: string;
  /** Leaves only so many bytes free. */
  fill(leaveBytes: number): void;
  /** Gives the disk its first size again. */
  empty(): void;
  remount(option: 'ro' | 'rw'): void;
  unmount(): void;
}

const FILL_TRIES = 20;

/** Mounted in a folder for temporary files; null where that is not allowed. */
export function mountDisk(bytes: number): SmallDisk | null {
  const path = mkdtempSync(join(tmpdir(), 'parhelion-disk-'));
  const mount = (...args: string[]) => void execFileSync('mount', [...args, path], { stdio: 'ignore' });
  try {
    mount('-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs');
  } catch {
    rmSync(path, { recursive: true, force: true });
    return null;
  }
  const resize = (size: number) => mount('-o', `remount,size=${size}`);
  return {
    path,
    fill(leaveBytes) {
      for (let tries = 1; ; tries += 1) {
        const { blocks, bfree, bsize } = statfsSync(path);
        try {
          // No size at all would stand for any.
          return resize(Math.max(1, blocks - bfree) * bsize + leaveBytes);
        } catch (error) {
          // More was written meanwhile than there would be room for.
          if (tries >= FILL_TRIES) throw error;
        }
      }
    },
    empty: () => resize(bytes),
    remount: (option) => mount('-o', `remount,${option}`),
    unmount() {
      execFileSync('umount', ['-l', path]);
      rmSync(path, { recursive: true, force: true });
    },
  };
}
