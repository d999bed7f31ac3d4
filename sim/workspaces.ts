import type { Workspace, WorkspaceRequest, Workspaces } from '../src/ports/workspaces.ts'
import { forever, type Life } from './life.ts'

/** Folders by name alone: nothing of them matters to what is checked here. */
export class SimWorkspaces implements Workspaces {
  readonly #life: Life

  constructor(life: Life) {
    this.#life = life
  }

  async prepare(request: WorkspaceRequest): Promise<Workspace> {
    if (!this.#life.act()) return forever()
    await this.#life.delayed(1, () => undefined)
    const root = `/sim/agents/${request.agentId}/${request.originAttemptId}`
    return { path: `${root}/workspace`, privateDir: `${root}/private`, tmpDir: `${root}/tmp/${request.attemptId}` }
  }

  async discardTemporary(): Promise<void> {
    if (!this.#life.act()) await forever()
  }

  async freeBytes(): Promise<number> {
    return 1024 ** 4
  }
}
