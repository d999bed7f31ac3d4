import { systemLan } from '../../src/platform/lan.ts'
import { lanContract } from '../contracts/lan.ts'
import { MemoryLan } from '../contracts/memory-lan.ts'

lanContract('of this machine', async () => systemLan())

lanContract('in memory', async () => new MemoryLan().at('127.0.0.1', { isLoopback: true }))
