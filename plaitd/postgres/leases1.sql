-- alive reports whether the process behind a handle was heard of in time.
CREATE FUNCTION plait.alive(p_handle text) RETURNS boolean LANGUAGE sql VOLATILE
	AS 'SELECT EXISTS (SELECT 1 FROM plait.handles WHERE id = p_handle AND until > plait.millis())';

-- acquire takes a lease that nobody holds, or that a dead process or the one who asks
-- has let go of: whoever had it with the token p_dead. It returns the token; or 0, and
-- who holds it with which token.
CREATE FUNCTION plait.acquire(
	p_name text, p_handle text, p_dead bigint, p_key bigint, OUT r_token bigint, OUT r_holder text, OUT r_held bigint
) LANGUAGE plpgsql AS $$
BEGIN
	r_token := 0;
	SELECT handle, token INTO r_holder, r_held FROM plait.leases WHERE name = p_name;
	IF FOUND AND r_held <> p_dead AND plait.alive(r_holder) THEN
		RETURN;
	END IF;
	-- No commit is under way that has looked at the fence already.
	PERFORM pg_advisory_xact_lock(p_key);
	SELECT handle, token INTO r_holder, r_held FROM plait.leases WHERE name = p_name;
	IF FOUND AND r_held <> p_dead AND plait.alive(r_holder) THEN
		RETURN;
	END IF;
	IF NOT plait.alive(p_handle) THEN
		RAISE EXCEPTION 'this process has not been heard of' USING ERRCODE = 'PL005';
	END IF;
	INSERT INTO plait.leases AS l VALUES (p_name, 1, p_handle)
		ON CONFLICT (name) DO UPDATE SET token = l.token + 1, handle = excluded.handle
		RETURNING l.token INTO r_token;
END $$;

-- beat says that a process lives, for p_ttl more milliseconds, and tells it the time, the
-- version of the schema, and which leases it has.
CREATE FUNCTION plait.beat(
	p_id text, p_owner text, p_host text, p_boot text, p_pid bigint, p_start bigint, p_ttl bigint,
	OUT r_now bigint, OUT r_version int, OUT r_names text[], OUT r_tokens bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
	r_now := plait.millis();
	INSERT INTO plait.handles AS h VALUES (p_id, p_owner, p_host, p_boot, p_pid, p_start, r_now + p_ttl)
		ON CONFLICT (id) DO UPDATE SET until = excluded.until;
	SELECT version INTO r_version FROM plait.meta;
	SELECT array_agg(name), array_agg(token) INTO r_names, r_tokens FROM plait.leases WHERE handle = p_id AND handle <> '';
END $$;
