import type { Migration } from '../../../src/ports/store.ts';

export const migrations: readonly Migration[] = [];
