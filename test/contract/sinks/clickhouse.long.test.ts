import { after, before } from 'node:test';
import { clickhouseKind } from '../../../plugins/sinks/targets/clickhouse.ts';
import { type ClickHouseServers, chdbMissing, serversMissing, startClickHouse } from '../../helpers/clickhouse.ts';
import { type SinkServer, startChdb } from '../../helpers/sink-servers.ts';
import { sinkSuite } from './suite.ts';

const skip = serversMissing(1) ?? false;
let servers: ClickHouseServers;
let places = 0;
if (skip === false) {
  before(async () => {
    servers = await startClickHouse(1);
  });
  after(() => servers.stop());
}

sinkSuite({
  name: 'clickhouse',
  kind: clickhouseKind,
  skip,
  async place() {
    places += 1;
    return { target: `clickhouse://${servers.servers[0]!.host}`, options: { database: `rows${places}` } };
  },
});

const noChdb = chdbMissing() ?? false;
let chdb: SinkServer;
if (noChdb === false) {
  before(async () => {
    chdb = await startChdb();
  });
  after(() => chdb.stop());
}

// The servers of the distribution are of 2018.
sinkSuite({
  name: 'clickhouse of today',
  kind: clickhouseKind,
  skip: noChdb,
  async place() {
    places += 1;
    return { target: chdb.target, options: { database: `rows${places}` } };
  },
});
