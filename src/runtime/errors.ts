import { codeOf } from '../lib/coded-error.ts';

/** Exit codes of the process. */
export const EXIT = { ok: 0, schemaNewer: 57, usage: 64, bug: 70, temporary: 75, config: 78 } as const;

/**
 * All coded errors of kernel and adapters, with their meanings. A test compares this table with the codes that the source throws. Plugins
 * have separate tables.
 */
export const ERRORS = {
  CLI_USAGE: 'the command line is wrong: an unknown command or option, or a value that is missing or not allowed',
  CLI_BUG: 'a command met an unexpected error; its stack follows',
  CONFIG_INVALID: 'the configuration has errors; all of them are listed with their paths',
  CONFIG_UNREADABLE: 'the configuration file, or a file that a key ending in _FILE names, cannot be read',
  PLUGIN_NOT_FOUND: 'a plugin that the configuration names cannot be loaded',
  PLUGIN_INVALID:
    'the default export of a plugin is not a plugin definition of this API version, or provisioning the plugin failed',
  PLUGIN_CONFLICT: 'two plugins contribute the same route, method, processor, job kind or single-owner part',
  PLUGIN_CYCLE: 'plugins use each other in a circle',
  PLUGIN_START_TIMEOUT: 'a plugin did not start in time',
  PLUGIN_START_FAILED: 'a plugin threw while it started',
  PLUGIN_SERVICE: 'a plugin requested a service that is not in its `uses`, or did not provide one of its `offers`',
  PLUGIN_TOO_EARLY: 'a plugin used the store or the outbox while it was provisioned',
  PLUGIN_RELOAD_REFUSED: 'a role did not take over the new configuration; the old one stays in force',
  DATA_DIR_UNUSABLE: 'the data folder is not a folder, or this user may not read it',
  DAEMON_RUNNING: 'the command needs a stopped daemon',
  DAEMON_NOT_RUNNING: 'the command needs a running daemon, and none runs with this data folder',
  DAEMON_UNREACHABLE: 'a process of the daemon runs, and its admin listener does not answer',
  DAEMON_STOPPED: 'the daemon was stopped while it started',
  ROLE_SILENT: 'a role in a separate thread did not answer in time',
  ROLE_ENDED: 'the thread of a role ended unexpectedly',
  ROLE_CRASHED: 'the thread of a role was ended by uncaught error, or by its memory limit',
  STORE_BUSY: 'the database stayed locked by another process',
  STORE_FULL: 'the disk or the database is full',
  STORE_READ_ONLY: 'the database cannot be written',
  STORE_IO: 'the database could not read or write its files',
  STORE_DESCRIPTORS: 'the process has no free file descriptor to open the database',
  STORE_ENGINE_MISSING: 'the library of SQLite is not installed, or was built for another version of Node',
  STORE_MISSING: 'there is no database in the place that the configuration names',
  STORE_UNREACHABLE: 'the database server does not answer',
  STORE_CORRUPT: 'the file is damaged, or is not a database',
  STORE_CONFLICT: 'a row with the same unique key exists',
  STORE_CONSTRAINT: 'a row breaks a rule of its table other than a unique key',
  STORE_CLOSED: 'the store was used after it was closed',
  STORE_SCHEMA_NEWER: 'the database was migrated by a newer version whose changes this one does not know',
  STORE_COPY: 'a copy between two databases cannot start, differs from its source, or has not finished',
  STORE_BACKUP: 'a backup cannot be created, or cannot be restored',
  STORE_MIGRATION: 'a migration failed or its list is not 1, 2, 3 without holes',
  STORE_WRONG_CHAIN: 'the database belongs to another chain',
  LEDGER_IO: 'a file of the ledger could not be read or written',
  LEDGER_DAMAGED: 'what was looked up is on disk in the ledger, and damaged',
  LEDGER_MISSING: 'a command found no ledger in the data folder',
  LEDGER_FULL: 'the disk of the ledger is full; the follower waits',
  CHAIN_UNREACHABLE: 'no upstream answered',
  CHAIN_TIMEOUT: 'no upstream answered in time',
  CHAIN_RPC_ERROR: 'the upstream answered with an error object',
  CHAIN_BAD_BLOCK: 'the blocks of all upstreams contradict themselves',
  CHAIN_BAD_TRANSACTION: 'the bytes of a transaction are malformed or of an unknown version',
  CHAIN_BAD_RESPONSE: 'the answer of an upstream is not JSON',
  STREAM_PACKAGE_MISSING: 'the client package of follow.stream is absent or does not load',
  UPSTREAM_CONNECT: 'the connection to an upstream could not be opened',
  UPSTREAM_FAILED: 'the connection to an upstream broke',
  UPSTREAM_TIMEOUT: 'an upstream did not answer in time',
  UPSTREAM_OTHER_CHAIN: 'an upstream serves another chain than the database holds, and is out of service',
  UPSTREAM_TOO_LARGE: 'the answer of an upstream is larger than allowed',
  OUTBOUND_BAD_URL: 'the address of an outbound request cannot be used: scheme, port, user info or form',
  OUTBOUND_BLOCKED_ADDRESS: 'an outbound request would reach an address that is not allowed',
  OUTBOUND_DNS: 'the host name of an outbound request could not be resolved',
  OUTBOUND_CONNECT: 'the connection of an outbound request could not be opened',
  OUTBOUND_TLS: 'the certificate or the TLS handshake of an outbound request failed',
  OUTBOUND_TIMEOUT: 'an outbound request was not answered in time, or was given up',
  OUTBOUND_RESET: 'the connection of an outbound request broke',
  OUTBOUND_BAD_RESPONSE: 'the answer to an outbound request is not valid HTTP',
  OUTBOUND_TOO_LARGE: 'the answer to an outbound request is larger than allowed',
  HTTP_DOCS_MISSING: 'the files of /docs are missing',
  HTTP_PORT_TAKEN: 'an address to listen on is in use by another process',
  TLS_UNREADABLE: 'a file of http.tls or admin.tls cannot be read',
  TLS_INVALID: 'the files of http.tls or admin.tls contain no certificate, no private key, or two that do not match',
  NOTIFY_SOCKETS_INVALID: 'the service manager passed sockets with unknown names',
  HTTP_LISTEN_FAILED: 'the daemon cannot listen on an address',
  JOB_TIMEOUT: 'a job did not end within the time of its kind',
  JOB_ACK_FAILED: 'the kind of a job could not write the rows of an outcome; the job is failed',
  JOB_STOPPED: 'a job was aborted because the daemon stops',
  FOLLOW_FENCED: 'another process follows the chain on this database',
  PROCESSOR_FAILED: 'a block processor of a plugin threw; the log has its stack',
  PROCESSOR_TIMEOUT: 'a block processor of a plugin did not end within follow.processorTimeoutSeconds',
  FOLLOW_GAP_TAKEN: 'another process changed a gap while it was being filled',
  FOLLOW_REWIND: 'released blocks cannot be rolled back as far as --rewind-to requires',
  FOLLOW_GAPS_LEFT: 'a command ended before all slots were filled; the same command continues',
  FOLLOW_NOT_FINAL: 'a range to fill ends above the newest final slot',
  FOLLOW_DEEP_FORK: 'the fork is deeper than the finalized mark or the stored headers',
  POSEIDON_INPUT_TOO_LARGE: 'a number to hash is not below the prime of the field',
  SIGNUP_USAGE: 'the options of a sign-up do not fit the service, the file or each other',
  SIGNUP_AMOUNT: 'a text is not an amount of the paid currency',
  SIGNUP_KEYPAIR: 'the file of a wallet cannot be read',
  SIGNUP_STATE: 'the file for the key of a sign-up contains something else',
  SIGNUP_SERVICE: 'the service of a sign-up does not answer as expected',
  SIGNUP_REFUSED: 'a service refused a claim permanently',
  SIGNUP_PAYMENT: 'a payment could not be signed, sent or looked up',
  SIGNUP_WAITING: 'a payment is not final yet',
  SIGNUP_LOST: 'a payment failed or was never included in a block',
  LOCAL_ENGINE_MISSING: 'the native engine of the local chain is absent or does not load',
  LOCAL_ENGINE_ANSWER: 'the engine of the local chain answered something unknown',
  LOCAL_BAD_TRANSACTION: 'the local chain received bytes that are not a transaction it can run',
  LOCAL_BAD_KEY: 'the local chain received text or bytes that are not a 32-byte key',
  LOCAL_BAD_PROGRAM: 'the local chain could not load a program or its assets',
  LOCAL_FORK_DEPTH: 'a fork of the local chain would reach beyond its finalized block',
  LOCAL_FAUCET: 'the faucet of the local chain could not send',
  LOCAL_RPC: 'an error object that the local chain returned to its client',
  LOCAL_CHILD: 'the process of the local chain did not start',
} as const;

export type ErrorCode = keyof typeof ERRORS;

/** Code and meaning of an error, for use outside of the log: its message may contain a path or an address. Null for an unknown code. */
export function wordsOf(error: unknown): string | null {
  const code = codeOf(error);
  return (
    Object.entries(ERRORS)
      .find(([known]) => known === code)
      ?.join(': ') ?? null
  );
}
